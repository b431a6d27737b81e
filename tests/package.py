"""Install what was built into clean environments and try it there: `python tests/package.py dist`.

The interpreter that runs this file is the one that the environments are made with. Nothing of the
checkout is on their path: what the wheel forgot is missing.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKS = (
    ["-m", "fedstep", "--version"],
    ["-m", "fedstep", "list", "--json"],
    ["-m", "fedstep", "paper", "--quick"],  # the studies are in the package
    ["-m", "fedstep", "demo", "--data", "synthetic", "--rounds", "1", "--out", "demo"],
    # the page's templates and the mark of the types are in it too
    ["-c", "from pathlib import Path; assert Path('demo/report.html').stat().st_size > 10_000"],
    [
        "-c",
        "from importlib.resources import files; assert files('fedstep').joinpath('py.typed').is_file()",
    ],
    [
        "-c",
        "import fedstep, importlib.metadata as m; assert m.version('fedstep') == fedstep.__version__",
    ],
)


def main(dist: Path) -> None:
    """The wheel, then the source archive; the second environment has the first one's torch."""
    (wheel,) = dist.glob("*.whl")
    (archive,) = dist.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        python = place / "env" / "bin" / "python"
        run([sys.executable, "-m", "venv", str(place / "env")], place)
        for built in (wheel, archive):
            pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
            constraints = ["--constraint", str(ROOT / "constraints.txt")]
            run([*pip, *constraints, str(built.resolve())], place)
            for check in CHECKS:
                run([str(python), *check], place)
            run([str(python), "-m", "pip", "uninstall", "-qq", "-y", "fedstep"], place)
            print(f"{built.name}: installs and works with Python {sys.version.split()[0]}")


def run(command: list[str], place: Path) -> None:
    """Run it elsewhere; what it printed is shown if it fails."""
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
