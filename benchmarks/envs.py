"""Make an environment for every peer, from exact pins: benchmarks/.envs/<peer> from benchmarks/requirements/<peer>.txt.

python benchmarks/envs.py            all of them
python benchmarks/envs.py pfl jax    some

A peer that needs another Python than this one names it in the first line of its pins (# python3.13); it must be on the PATH.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def make(name: str, envs: Path) -> bool:
    """Whether everything could be installed; what was made before from the same pins is kept."""
    pins = (HERE / "requirements" / f"{name}.txt").read_text()
    home, stamp = envs / name, envs / name / "installed.txt"
    if stamp.exists() and stamp.read_text() == pins:
        print(f"{name}: there already", flush=True)
        return True
    print(f"{name}: installing", flush=True)
    try:
        subprocess.run([interpreter(pins), "-m", "venv", "--clear", str(home)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name}: no environment ({error}); run.py will go on without it", flush=True)
        return False
    pip = [
        str(home / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    # torch first and alone: a range in another package's requirements would take a newer build with gigabytes of CUDA
    first = [line for line in pins.splitlines() if line.startswith("torch==")]
    for what in [first, ["--requirement", str(HERE / "requirements" / f"{name}.txt")]]:
        if what and subprocess.run(pip + what).returncode:
            print(f"{name}: could not be installed; run.py will go on without it", flush=True)
            return False
    stamp.write_text(pins)
    return True


def interpreter(pins: str) -> str:
    """The Python that the pins ask for in their first line, or this one."""
    first = pins.partition("\n")[0]
    if first.startswith("# python"):
        return first.removeprefix("# ").strip()
    return sys.executable


def main() -> int:
    known = sorted(path.stem for path in (HERE / "requirements").glob("*.txt"))
    parser = argparse.ArgumentParser(description="Make an environment for every peer.")
    parser.add_argument(
        "peers", nargs="*", metavar="peer", help=f"of {', '.join(known)} (default: all)"
    )
    parser.add_argument(
        "--envs",
        type=Path,
        default=HERE / ".envs",
        help="where to put them (default: benchmarks/.envs)",
    )
    options = parser.parse_args()
    if unknown := set(options.peers) - set(known):
        parser.error(f"no peer {', '.join(sorted(unknown))}: choose of {', '.join(known)}")
    made = [make(name, options.envs) for name in options.peers or known]
    return 0 if all(made) else 1


if __name__ == "__main__":
    sys.exit(main())
