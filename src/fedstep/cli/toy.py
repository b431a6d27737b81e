"""`fedstep toy`: Figure 1 of the paper."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def register(commands: Any) -> None:
    """Add the command to the parser."""
    toy = commands.add_parser(
        "toy", help="Figure 1 of the paper: two clients in the plane, as printed and as run"
    )
    toy.add_argument(
        "--mode",
        choices=("both", "literal", "authors"),
        default="both",
        help="the algorithm, or the scripts",
    )
    toy.add_argument("--rounds", type=int, default=50, help="rounds (default: 50)")
    toy.add_argument(
        "--out",
        type=Path,
        default=Path("out/toy"),
        help="directory for the figures (default: out/toy)",
    )
    toy.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the methods, print what they reached, draw the figures."""
    import torch

    from fedstep.core.errors import InputError
    from fedstep.paper import toy
    from fedstep.paper.toy_figure import toy_figure

    if options.rounds < 1:
        raise InputError(f"--rounds {options.rounds}: give at least 1")
    torch.set_num_threads(1)
    honest = [toy.walk(name, alg, options.rounds) for name, alg in toy.baselines().items()]
    modes: dict[str, tuple[str, dict[str, Any]]] = {
        "literal": ("The algorithm as printed", dict(toy.literal())),
        "authors": ("The authors' scripts", dict(toy.authors())),
    }
    console = Console()
    table = Table(
        "run",
        "method",
        f"F after {options.rounds} rounds",
        "largest eta_g",
        box=None,
        pad_edge=False,
    )
    for mode, (title, methods) in modes.items():
        if options.mode not in ("both", mode):
            continue
        walks = [toy.walk(name, alg, options.rounds) for name, alg in methods.items()]
        for walk in walks:
            table.add_row(mode, walk.name, f"{walk.values[-1]:.3g}", f"{max(walk.eta_g):.3g}")
        for path in toy_figure(walks, honest, title, options.out / f"toy-{mode}"):
            console.print(f"figure: {path}", soft_wrap=True, highlight=False)
    for walk in honest:
        table.add_row("baselines", walk.name, f"{walk.values[-1]:.3g}", f"{max(walk.eta_g):.3g}")
    console.print(table)
