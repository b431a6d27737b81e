"""`fedstep partition`: how a rule deals a task to clients, before anything is trained."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedstep.cli.options import add_data, add_json, print_json
from fedstep.core.errors import InputError
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from fedstep.data.tasks import Split


def register(commands: Any) -> None:
    """Add the command to the parser."""
    deal = commands.add_parser(
        "partition",
        help="deal a task to clients: sizes, labels, hash, and a map as a page",
    )
    deal.add_argument("task", metavar="TASK", help="a task of `fedstep data list`")
    deal.add_argument(
        "--rule",
        help=(
            "such as 'Dirichlet(alpha=0.3, clients=100)' "
            "(default: the natural clients, where there are any)"
        ),
    )
    deal.add_argument("--seed", type=int, default=0, help="seed of the partition (default: 0)")
    add_data(deal)
    deal.add_argument(
        "--out",
        type=Path,
        default=Path("out/partition"),
        help="directory for the page (default: out/partition)",
    )
    add_json(deal)
    deal.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Deal the samples, print what came out, draw the map."""
    from fedstep.data.partition import partitioner
    from fedstep.data.tasks import load

    # without a rule: as the data came
    chosen = None
    dealt = "natural clients"
    if options.rule:
        chosen = partitioner(options.rule)
        dealt = f"{chosen}, seed {options.seed}"
    # the function that runs use: what is shown is what will be trained on
    split = load(options.task, chosen, options.data, options.seed)
    labels = _labels(options.task, split)
    facts = {
        "clients": str(len(labels.counts)),
        "samples a client": quartile_text([sum(row) for row in labels.counts]),
        "labels a client": quartile_text([sum(n > 0 for n in row) for row in labels.counts]),
        "hash": split.digest,
        "note": split.note or "none",
    }
    written = _write(options, f"{options.task}: {dealt}", facts, labels)
    if options.json:
        files = {kind: str(path.resolve()) for kind, path in written.items()}
        print_json({**facts, **files, "labels": labels.names, "counts": labels.counts})
        return
    terminal = console()
    for name, value in facts.items():
        terminal.print(f"{name:<18}{value}", soft_wrap=True)
    for kind, path in written.items():
        terminal.print(f"{kind}: {path.resolve()}", soft_wrap=True)


@dataclass(frozen=True)
class ClientLabels:
    """How many samples of each label every client has."""

    counts: list[list[int]]  # a row a client
    names: list[str]  # of the columns


def _labels(task: str, split: Split) -> ClientLabels:
    from fedstep.data.parts import label_counts
    from fedstep.data.sets import data_set

    targets = split.federation.fields[-1]
    # a map of thousands of different numbers would be a row of dots
    if targets.is_floating_point():
        raise InputError(
            f"task {task} has numbers for targets: there are no labels to map, choose another task"
        )
    table = label_counts(split.federation.parts, targets.numpy())
    # labels that no client has would be empty rows of the map
    present = [label for label, total in enumerate(table.sum(0)) if total]
    return ClientLabels(
        counts=table[:, present].tolist(),
        names=[data_set(task).label_name(label) for label in present],
    )


def _write(
    options: argparse.Namespace,
    title: str,
    facts: dict[str, str],
    labels: ClientLabels,
) -> dict[str, Path]:
    """The page, and the picture where there is something to draw it with."""
    from fedstep.report.heatmap import heatmap
    from fedstep.report.heatmap_png import save_png
    from fedstep.report.page import Page, Section, word_table
    from fedstep.report.render import write_page

    # without --data and --out: the page is the same wherever it was made
    command = f"fedstep partition {options.task} --seed {options.seed}"
    if options.rule:
        command += f" --rule {shlex.quote(options.rule)}"
    table = word_table((), list(facts.items()), words=True)
    chart = heatmap(labels.counts, labels.names, "Labels by client")
    page = Page(
        title=title,
        sections=(
            Section("The clients", tables=(table,)),
            Section("Their labels", figures=(chart,)),
        ),
        command=command,
    )
    target = options.out / f"{options.task}.html"
    # the picture needs matplotlib; the page is there in any case
    written = {"page": target}
    try:
        write_page(target, page)
        picture = save_png(labels.counts, labels.names, title, target.with_suffix(".png"))
    except OSError as error:
        raise InputError(
            f"--out {options.out} cannot be written ({error.strerror}): choose another"
        ) from None
    if picture:
        written["picture"] = picture
    return written


def quartile_text(values: Sequence[float]) -> str:
    """Least, quartiles and most."""
    import numpy as np

    least, *quartiles, most = np.quantile(values, (0, 0.25, 0.5, 0.75, 1)).tolist()
    middle = " / ".join(f"{quartile:g}" for quartile in quartiles)
    return f"min {least:g}, quartiles {middle}, max {most:g}"
