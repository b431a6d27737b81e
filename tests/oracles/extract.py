"""Cut small extracts out of the full oracle files: `python tests/oracles/extract.py PATH_TO_ORACLES`.

The extracts keep inputs, settings and the first rounds of some runs, so that the default tests prove the same things
without the full files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent / "extracts"
KEEP = {
    "sls_line_search": [
        "reset0/c0.1/init10", "reset1/c0.5/init1", "reset2/c0.9", "noisy/defaults", "logreg/reset1", "failure",
        "goldstein", "acc",
    ],
    "stochastic_stepsizes": [""],
    "fedsls_fedexpsls_server": ["fedavg", "fedexp", "fedprox(exp)", "fedsls/minibatch4_inorder", "fedexpsls/"],
    "fedexp_main_server": ["fedavg/override", "fedprox(exp)", "fedadagrad", "fedadam/override", "fedavgm/override",
                           "scaffold", "fedavgm(exp)"],
    "fl_quadratics_derived": [""],
    "toy_fig1_authors": [""],
    "toy_paper_literal_derived": ["opt0_c0.1", "opt1_c0.5", "bn0.1"],
    "server_optimizers_derived": [""],
    "flower_server_optimizers": [""],
    "fedexprox_derived": ["gamma0.1", "gamma10.0"],
}  # fmt: skip
ROUNDS = 4


def main(source: Path) -> None:
    """Write every extract."""
    for name, wanted in KEEP.items():
        full = json.loads((source / f"{name}.json").read_text())
        runs = {k: shorter(v) for k, v in full["runs"].items() if any(w in k for w in wanted)}
        write(name, {**{k: v for k, v in full.items() if k != "runs"}, "runs": runs})
    notebook = json.loads((source / "fedexp_notebook_linreg.json").read_text())["small"]
    notebook["traj"] = {k: v[:ROUNDS] for k, v in notebook["traj"].items()}
    write("fedexp_notebook_linreg", {"small": notebook})


def shorter(run: Any) -> Any:
    """The first rounds of a run; the toy's flat lists hold ten steps a round."""
    if isinstance(run, list):
        return run[:ROUNDS]
    cut = {
        "rounds": ROUNDS,
        "clients": 3 * ROUNDS,
        "w": ROUNDS,
        "F": ROUNDS,
        "eta_g": ROUNDS,
        "ratio": ROUNDS,
    }
    cut |= {"steps1": 10 * ROUNDS, "steps2": 10 * ROUNDS}
    return {k: v[: cut[k]] if k in cut and isinstance(v, list) else v for k, v in run.items()}


def write(name: str, value: Any) -> None:
    """One line of JSON a file."""
    HERE.mkdir(exist_ok=True)
    (HERE / f"{name}.json").write_text(json.dumps(value) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
