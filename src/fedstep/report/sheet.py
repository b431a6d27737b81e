"""The page of a study: tables, charts, tuning and how it was made, in one file without network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path

from fedstep.analysis.compare import Comparison, compare
from fedstep.analysis.results import Group, Results
from fedstep.report import panels
from fedstep.report.page import COLOURS, page
from fedstep.report.runs import html_table, legend
from fedstep.report.tables import Grid, gap, grids, notes, percent, spread
from fedstep.run.files import plain, write_text


def write_sheet(path: Path, results: Results, extra: Sequence[str] = ()) -> Path:
    """Write the page and return its absolute path."""
    write_text(path, sheet(results, compare(results), extra))
    return path.resolve()


def sheet(results: Results, comparison: Comparison, extra: Sequence[str] = ()) -> str:
    """The page as text; `extra` holds further figures as HTML, such as a map of the clients' labels."""
    groups = results.groups
    body = [
        _lead(results),
        _unfinished(results),
        f"<p>{escape(verdict(comparison))}</p>",
        legend([g.label for g in groups]),
        *(f"<h2>{escape(grid.title)}</h2>{_table(grid)}" for grid in grids(comparison)),
        "<ul class='notes'>"
        + "".join(f"<li>{escape(note)}</li>" for note in notes(comparison))
        + "</ul>",
        _section(
            "Accuracy",
            panels.accuracy_panels(groups),
            "Lines are means over seeds, bands one standard deviation.",
        ),
        _section(
            "Training loss",
            panels.loss_panels(groups),
            "The mean over all clients, at the point that is read out.",
        ),
        _section("Steps of the clients", panels.step_panels(groups), "The paper's Figure 4."),
        _section("Step of the server", panels.server_panels(groups), ""),
        _section(
            "Sensitivity to c", panels.sensitivity_panels(comparison), "The paper's Figure 5."
        ),
        _section("The clients' data", extra, ""),
        _tuning(results),
        _made(results),
    ]
    return page(results.study.title, "\n".join(part for part in body if part))


def verdict(comparison: Comparison) -> str:
    """The outcome in a sentence or two, with its uncertainty."""
    ranked = sorted(
        (line for line in comparison.lines if line.accuracy.mean > 0),
        key=lambda r: -r.accuracy.mean,
    )
    if not ranked:
        return "No accuracy was measured."
    first = ranked[0]
    said = f"Highest accuracy: {first.label}, {spread(first.accuracy, 100)} % ({first.seeds} seed{'s' * (first.seeds > 1)})."
    nearest = next((line for line in ranked[1:] if line.difference), None)
    if first.label == comparison.reference and nearest and nearest.difference:
        said += f" Next: {nearest.label}, {gap(nearest.difference)} points."
        low, high = nearest.difference.low, nearest.difference.high
        if low <= 0 <= high:
            said += " The interval contains 0: these seeds do not tell the two apart."
    never = [line.label for line in comparison.lines if not line.reached]
    if never:
        said += f" Never at {percent(comparison.target)} %: {', '.join(never)}."
    return said


def _lead(results: Results) -> str:
    study, s = results.study, results.study.setting
    local = f"{s.steps} local steps" if s.epochs is None else f"{s.epochs} local epochs"
    about = next((spec for g in results.groups for spec in g.specs if "clients" in spec), {})
    size = f"{about['clients']:,} clients, {about['samples']:,} samples" if about else ""
    facts = [
        s.data,
        s.model,
        s.partition or "natural clients",
        size,
        f"{s.rounds} rounds of {s.per_round} clients",
    ]
    facts += [
        f"{local} of batch {s.batch}",
        f"evaluated every {s.every} rounds",
        f"{len(study.seeds)} seeds",
    ]
    facts += [f"scale: {study.scale}"]
    words = f"<p class='lead'>{escape(study.text.strip())}</p>" if study.text.strip() else ""
    return f"{words}<p class='lead'>{escape(' · '.join(fact for fact in facts if fact))}</p>"


def _unfinished(results: Results) -> str:
    parts = [
        f"{g.label} seed {seed} (round {last})"
        for g in results.groups
        for seed, last in _stopped(g)
    ]
    parts += [f"{label} (not begun)" for label in results.missing]
    begun = {
        g.label: len(g.seeds) for g in results.groups if len(g.seeds) < len(results.study.seeds)
    }
    parts += [
        f"{label} ({n} of {len(results.study.seeds)} seeds begun)" for label, n in begun.items()
    ]
    return f"<p class='warn'>Not finished: {escape('; '.join(parts))}.</p>" if parts else ""


def _stopped(group: Group) -> list[tuple[int, int]]:
    rows = zip(group.seeds, group.runs, strict=True)
    return [(seed, run.rows[-1]["round"]) for seed, run in rows if seed in group.unfinished]


def _table(grid: Grid) -> str:
    rows = [[_key(i), *map(escape, row)] for i, row in enumerate(grid.rows)]
    return html_table(["", *(head.replace(" %", "\u00a0%") for head in grid.heads)], rows)


def _key(i: int) -> str:
    return f"<span class='key c{i % len(COLOURS)}'></span>"


def _section(title: str, figures: Sequence[str], words: str) -> str:
    if not figures:
        return ""
    lead = f"<p class='lead'>{escape(words)}</p>" if words else ""
    return f"<h2>{escape(title)}</h2>{lead}<div class='charts'>{''.join(figures)}</div>"


def _tuning(results: Results) -> str:
    """Every grid point, the chosen one marked."""
    rows = []
    for i, group in enumerate(results.groups):
        scores = group.choice.scores
        name = [_key(i), escape(group.label)]
        for spec, score in scores.items():
            got = "diverged" if score is None else percent(score)
            cells = [f"<code>{escape(spec)}</code>", got, f"{group.choice.rounds // len(scores):,}"]
            chosen = spec == group.choice.spec
            rows.append(
                [
                    *name,
                    *([f"<b>{c}</b>" for c in cells] if chosen else cells),
                    "chosen" if chosen else "",
                ]
            )
            name = ["", ""]
    if not rows:
        return ""
    seed, total = results.study.tuning.seed, sum(g.choice.rounds for g in results.groups)
    words = (
        f"Chosen by test accuracy with seed {seed}, which no run of the study uses: this favours the tuned methods. "
        f"{total:,} rounds in all."
    )
    heads = ["", "method", "grid point", "accuracy %", "rounds", ""]
    return (
        f"<h2>Tuning</h2><p class='lead'>{escape(words)}</p>{html_table(heads, rows, words=True)}"
    )


def _made(results: Results) -> str:
    """Command, versions, settings, methods and the hash of every run."""
    study, specs = results.study, [spec for g in results.groups for spec in g.specs]
    scale = "" if study.scale == "paper" else f" --scale {study.scale}"
    versions = dict.fromkeys(
        ", ".join(f"{k} {v}" for k, v in spec["versions"].items())
        for spec in specs
        if "versions" in spec
    )
    used = "; ".join(versions) or "unknown"
    rows = [
        [
            _key(i),
            escape(g.label),
            str(seed),
            f"<code>{escape(str(spec.get('digest', '-')))}</code>",
            f"<code>{escape(str(spec.get('partition', '-'))[:16])}</code>",
            f"<code>{escape(g.choice.spec)}</code>",
        ]
        for i, g in enumerate(results.groups)
        for seed, spec in zip(g.seeds, g.specs, strict=True)
    ]
    runs = html_table(["", "method", "seed", "run", "partition", "spec"], rows, words=True)
    settings = json.dumps(plain(asdict(study.setting)), indent=1)
    return (
        f"<h2>How it was made</h2><pre>fedstep run study.toml{escape(scale)}</pre>"
        f"<p>{escape(used)}. Seeds {', '.join(map(str, study.seeds))}; tuning seed {study.tuning.seed}.</p>"
        f"<details><summary>Runs and their hashes</summary>{runs}</details>"
        f"<details><summary>Settings</summary><pre>{escape(settings)}</pre></details>"
    )
