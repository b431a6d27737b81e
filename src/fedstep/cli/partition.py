"""`fedstep partition`: how a rule deals a task to clients, before anything is trained."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console


def register(commands: Any) -> None:
    """Add the command to the parser."""
    deal = commands.add_parser(
        "partition", help="deal a task to clients: sizes, labels, hash, and a map as a page"
    )
    deal.add_argument("task", metavar="TASK", help="a task of `fedstep data list`")
    deal.add_argument(
        "--rule",
        help="such as 'Dirichlet(alpha=0.3, clients=100)' (default: the natural clients, where there are any)",
    )
    deal.add_argument("--seed", type=int, default=0, help="seed of the partition (default: 0)")
    deal.add_argument(
        "--data", type=Path, help="directory of the data sets (default: FEDSTEP_DATA)"
    )
    deal.add_argument(
        "--out",
        type=Path,
        default=Path("out/partition"),
        help="directory for the page (default: out/partition)",
    )
    deal.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Deal the samples, print what came out, draw the map."""
    from fedstep.core.errors import InputError
    from fedstep.data.labels import label_name
    from fedstep.data.partition import partitioner
    from fedstep.data.parts import label_counts
    from fedstep.data.tasks import load
    from fedstep.report.heatmap import heatmap
    from fedstep.report.heatmap_png import save_png
    from fedstep.report.page import Page, Section, word_table
    from fedstep.report.render import write_page

    chosen = partitioner(options.rule) if options.rule else None
    split = load(options.task, chosen, options.data, options.seed)
    targets = split.federation.fields[-1]
    if targets.is_floating_point():
        raise InputError(
            f"task {options.task} has numbers for targets: there are no labels to map, choose another task"
        )
    table = label_counts(split.federation.parts, targets.numpy())
    held = [
        k for k, n in enumerate(table.sum(0)) if n
    ]  # labels that no client has would be empty rows
    counts, names = table[:, held].tolist(), [label_name(options.task, k) for k in held]
    facts = {
        "clients": str(len(counts)),
        "samples a client": spread([sum(row) for row in counts]),
        "labels a client": spread([sum(n > 0 for n in row) for row in counts]),
        "hash": split.digest,
        "note": split.note or "none",
    }
    console = Console(highlight=False)
    for name, value in facts.items():
        console.print(f"{name:<18}{value}", soft_wrap=True, markup=False)

    dealt = f"{chosen}, seed {options.seed}" if chosen else "natural clients"
    title = f"{options.task}: {dealt}"
    caption = "Labels by client"
    command = f"fedstep partition {options.task} --seed {options.seed}"
    command += f" --rule {shlex.quote(options.rule)}" if options.rule else ""
    page = Page(
        title=title,
        sections=(
            Section("The clients", tables=(word_table((), list(facts.items()), words=True),)),
            Section("Their labels", figures=(heatmap(counts, names, caption),)),
        ),
        command=command,
    )
    target = options.out / f"{options.task}.html"
    try:
        write_page(target, page)
        picture = save_png(counts, names, title, target.with_suffix(".png"))
    except OSError as error:
        raise InputError(
            f"--out {options.out} cannot be written ({error.strerror}): choose another"
        ) from None
    console.print(f"page: {target.resolve()}", soft_wrap=True, markup=False)
    if picture:
        console.print(f"picture: {picture.resolve()}", soft_wrap=True, markup=False)


def spread(values: Sequence[float]) -> str:
    """Least, quartiles and most."""
    import numpy as np

    least, *quartiles, most = np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()
    return f"min {least:g}, quartiles {' / '.join(f'{q:g}' for q in quartiles)}, max {most:g}"
