"""One self-contained HTML page for one or several runs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from fedstep.analysis.summary import Run, Summary, common_target, summarise
from fedstep.report.page import COLOURS, page
from fedstep.report.svg import Series, chart
from fedstep.run.files import plain, write_text


def write_report(
    path: Path,
    title: str,
    runs: Sequence[Run],
    *,
    lead: str = "",
    command: str = "",
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write the page and return its absolute path."""
    target = common_target(runs)
    body = [
        f"<p class='lead'>{escape(lead)}</p>" if lead else "",
        legend([run.name for run in runs]),
        table([summarise(run, target) for run in runs], target),
        f"<div class='charts'>{''.join(charts(runs))}</div>",
        f"<h2>How it was made</h2><pre>{escape(command)}</pre>"
        if command
        else "<h2>How it was made</h2>",
        f"<details><summary>Settings</summary><pre>{escape(json.dumps(plain(settings or {}), indent=1))}</pre></details>",
    ]
    write_text(path, page(title, "\n".join(body)))
    return path.resolve()


def charts(runs: Sequence[Run]) -> list[str]:
    """Every chart that the rows have numbers for."""
    drawn = []

    def add(
        title: str, x: str, y: str, lines: list[Series], log_x: bool = False, log_y: bool = False
    ) -> None:
        if any(not math.isnan(v) for line in lines for v in line.y):
            drawn.append(chart(lines, title, x, y, log_x, log_y))

    def lines(y: str, x: str = "rounds") -> list[Series]:
        return [Series(r.name, getattr(r, x), r.column(y), i) for i, r in enumerate(runs)]

    add("Test accuracy by round", "round", "accuracy", lines("accuracy"))
    add("Training loss on the clients' batches", "round", "loss", lines("loss"), log_y=True)
    add(
        "Test accuracy by cost",
        "gradient-equivalents (trials counted)",
        "accuracy",
        lines("accuracy", "gradients"),
    )
    add("Test loss by round", "round", "test loss", lines("test_loss"), log_y=True)
    found = [(i, r) for i, r in enumerate(runs) if any(t > 0 for t in r.column("trials"))] or list(
        enumerate(runs)
    )
    steps = [
        Series(r.name, r.rounds, r.quantile(2), i, (r.quantile(1), r.quantile(3))) for i, r in found
    ]
    add("Step the clients took: median and quartiles", "round", "client step", steps, log_y=True)
    trials = [Series(r.name, r.rounds, r.column("trials"), i) for i, r in found]
    if any(t > 0 for s in trials for t in s.y):
        add("Trials a step (1: accepted at once)", "round", "trials", trials)
    swing = [v for r in runs for v in r.column("eta_g")]
    add(
        "Step the server took",
        "round",
        "eta_g",
        lines("eta_g"),
        log_y=max(swing, default=1) > 20 * min(swing, default=1),
    )
    return drawn


def table(rows: Sequence[Summary], target: float) -> str:
    """The comparison as an HTML table."""
    scored = not math.isnan(target)
    head = ["", "method"]
    head += (
        ["accuracy, last tenth", "best", f"rounds to {target:.3f}", f"gradients to {target:.3f}"]
        if scored
        else []
    )
    head += ["training loss", "trials a step", "failed"]
    lines = []
    for i, row in enumerate(rows):
        cells = [f"<span class='key c{i}'></span>", escape(row.name)]
        if scored:
            cost = "never" if row.gradients_to_target is None else f"{row.gradients_to_target:,.0f}"
            cells += [
                f"{row.accuracy:.4f}",
                f"{row.best:.4f}",
                str(row.rounds_to_target or "never"),
                cost,
            ]
        cells += [f"{row.loss:.4g}", f"{row.trials:.2f}" if row.trials else "-", str(row.failed)]
        lines.append(cells)
    return html_table(head, lines)


def html_table(heads: Sequence[str], rows: Sequence[Sequence[str]], words: bool = False) -> str:
    """A table that scrolls sideways where it is too wide; the cells of the rows are HTML, numbers unless words."""
    header = "".join(f"<th>{escape(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    kind = " class='words'" if words else ""
    return f"<div class='scroll'><table{kind}><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>"


def legend(names: Sequence[str]) -> str:
    """Boxes that show and hide the lines of a name in every chart."""
    if len(names) < 2:
        return ""
    items = (
        f"<label><input type='checkbox' checked data-series='{escape(name)}'>"
        f"<span class='key c{i % len(COLOURS)}'></span>{escape(name)}</label>"
        for i, name in enumerate(names)
    )
    return f"<div class='legend'>{''.join(items)}</div>"
