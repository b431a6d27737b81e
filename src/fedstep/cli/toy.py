"""`fedstep toy`: Figure 1 of the paper."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fedstep.cli.options import add_json, check_rounds, print_json
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from fedstep.paper.toy import Walk


def register(commands: Any) -> None:
    """Add the command to the parser."""
    toy = commands.add_parser(
        "toy",
        help="Figure 1 of the paper: two clients in the plane, as printed and as run",
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
    add_json(toy)
    toy.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Run the methods, print what they reached, draw the figures."""
    import torch

    from fedstep.paper import toy
    from fedstep.paper.toy_figure import toy_figure

    check_rounds(options.rounds)
    torch.set_num_threads(1)  # vectors of two numbers, and the same bits on every machine
    variants: dict[str, tuple[str, Mapping[str, Any]]] = {
        "literal": ("The algorithm as printed", toy.literal()),
        "authors": ("The authors' scripts", toy.authors()),
    }
    # once for both figures: the baselines are the same
    walks = {"baselines": _walks(toy.baselines(), options.rounds)}
    figures: list[Path] = []
    for mode, (title, methods) in variants.items():
        # a variant that was not asked for is not run at all
        if options.mode not in ("both", mode):
            continue
        walks[mode] = _walks(methods, options.rounds)
        figures += toy_figure(
            walks[mode],
            walks["baselines"],
            title,
            options.out / f"toy-{mode}",
        )
    if options.json:
        records = [_record(mode, walk) for mode in walks for walk in walks[mode]]
        print_json({"walks": records, "figures": [str(path) for path in figures]})
        return
    terminal = console(highlight=True)
    for path in figures:
        terminal.print(f"figure: {path}", soft_wrap=True, highlight=False)
    table = Table(
        "run",
        "method",
        f"F after {options.rounds} rounds",
        "largest eta_g",
        box=None,
        pad_edge=False,
    )
    for mode in sorted(walks, key=lambda mode: mode == "baselines"):  # they come last
        for walk in walks[mode]:
            table.add_row(mode, walk.name, f"{walk.values[-1]:.3g}", f"{max(walk.eta_g):.3g}")
    terminal.print(table)


def _walks(methods: Mapping[str, Any], rounds: int) -> list[Walk]:
    from fedstep.paper import toy

    return [toy.walk(name, algorithm, rounds) for name, algorithm in methods.items()]


def _record(mode: str, walk: Walk) -> dict[str, Any]:
    return {"run": mode, "method": walk.name, "values": walk.values, "eta_g": walk.eta_g}
