"""Where the numbers of a study come from: setting, tuning, versions, hashes and what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedstep.analysis.group import Group, primary_metric
from fedstep.analysis.results import Results
from fedstep.report.metric_text import metric_value, with_unit
from fedstep.report.page import Cell, Detail, PageTable, Section, TableRow
from fedstep.report.style import LineStyle, line_style
from fedstep.run.columns import MetricInfo
from fedstep.study.plan import FULL_SCALE, Study, Tuning


def facts(results: Results) -> str:
    """The setting in one line."""
    study = results.study
    setting = study.setting
    local = f"{setting.epochs} local epochs"
    if setting.epochs is None:
        local = f"{setting.steps} local steps"
    evaluated = f"evaluated every {setting.every} rounds"
    if setting.every == 1:
        evaluated = "evaluated every round"
    parts = [
        _size(results),
        f"{setting.rounds} rounds of {setting.per_round} clients",
        f"{local} of batch {setting.batch}",
        evaluated,
    ]
    # A run of `fit` knows neither the name of its data nor of a partition, and has no scale.
    if fit_settings(results):
        parts = [
            setting.model,
            *parts,
            f"seed {study.seeds[0]}",
        ]
    else:
        parts = [
            setting.data,
            setting.model,
            setting.partition or "natural clients",
            *parts,
            _seed_count(study),
            f"scale: {study.scale}",
        ]
    # What no run wrote down is left out.
    known = [part for part in parts if part]
    return " · ".join(known)


def _seed_count(study: Study) -> str:
    words = f"{len(study.seeds)} seed"
    if len(study.seeds) > 1:
        words += "s"
    return words


def fit_settings(results: Results) -> Mapping[str, Any]:
    """What `fit` wrote of the only run there is; nothing where the results are of a study."""
    specs = _all_specs(results)
    if len(specs) != 1:
        return {}
    # The runs of a study have its setting; fit was given a model and clients instead.
    only = specs[0]
    if "parameters" in only and "setting" not in only:
        return only
    return {}


def _all_specs(results: Results) -> list[Mapping[str, Any]]:
    """What every run wrote about itself."""
    specs: list[Mapping[str, Any]] = []
    for group in results.groups:
        specs += group.specs
    return specs


def command_of(results: Results) -> str:
    """What to type to make the results again: a command, or the call of `fit`."""
    settings = fit_settings(results)
    if settings:
        return fit_command(settings)
    return study_command(results.study)


def unfinished(results: Results) -> str:
    """Runs that stopped early or never began, in a sentence; nothing for a finished study."""
    # A study can be read while it runs: the page says what it lacks.
    parts: list[str] = []
    for group in results.groups:
        parts += _stopped(group)
    for label in results.missing:
        parts.append(f"{label} (not begun)")
    wanted = len(results.study.seeds)
    for group in results.groups:
        begun = len(group.seeds)
        if begun < wanted:
            parts.append(f"{group.label} ({begun} of {wanted} seeds begun)")
    if not parts:
        return ""
    listed = "; ".join(parts)
    return f"Not finished: {listed}."


def tuning_section(results: Results) -> Section | None:
    """Every grid point, the chosen one marked; None where nothing was tuned."""
    metric = primary_metric(results.groups)
    rows: list[TableRow] = []
    for index, group in enumerate(results.groups):
        rows += _tuning_rows(group, index, metric)
    if not rows:
        return None
    total = sum(group.choice.rounds for group in results.groups)
    words = f"{_chosen_by(results.study.tuning, metric)} {total:,} rounds in all."
    heads = (
        "method",
        "grid point",
        with_unit(metric.title, metric),
        "rounds",
        # Which of them was chosen.
        "",
    )
    table = PageTable(heads, tuple(rows), words=True)
    return Section("Tuning", words=words, tables=(table,))


def _chosen_by(tuning: Tuning, metric: MetricInfo) -> str:
    seed = f"with seed {tuning.seed}, which no run of the study uses"
    if tuning.clients is not None:
        return f"Chosen by the {metric.title} on {tuning.clients} clients set aside, {seed}."
    # By test data, and the page says so: it flatters whatever was tuned.
    return f"Chosen by test {metric.title} {seed}: this favours the tuned methods."


def study_command(study: Study) -> str:
    """What to type to make the results again."""
    # The default is not spelt out.
    if study.scale == FULL_SCALE:
        return "fedstep run study.toml"
    return f"fedstep run study.toml --scale {study.scale}"


def fit_command(settings: Mapping[str, Any]) -> str:
    """The call that makes a run of `fit` again, as far as its settings tell it."""
    if "method" not in settings:
        return ""
    # An algorithm put together by hand has no name to be called by.
    algorithm = "algorithm"
    if settings["method"] != "custom":
        algorithm = repr(settings["method"])
    arguments = ["model", "clients", algorithm]
    for name in ("rounds", "per_round", "seed"):
        if name in settings:
            arguments.append(f"{name}={settings[name]}")
    listed = ", ".join(arguments)
    return f"fedstep.fit({listed})"


def versions(results: Results) -> str:
    """Programs and seeds."""
    # Runs of one study may have been made on several machines: each set of versions once.
    programs: list[str] = []
    for spec in _all_specs(results):
        if "versions" in spec:
            text = _programs(spec["versions"])
            if text not in programs:
                programs.append(text)
    named = "; ".join(programs) or "unknown"
    seeds = ", ".join(str(seed) for seed in results.study.seeds)
    # Nothing is tuned in a run of `fit`.
    if fit_settings(results):
        return f"{named}. Seed {seeds}."
    return f"{named}. Seeds {seeds}; tuning seed {results.study.tuning.seed}."


def hashes(results: Results) -> Detail:
    """The hash of every run and of its partition."""
    rows = []
    for index, group in enumerate(results.groups):
        for seed, spec in zip(group.seeds, group.specs, strict=True):
            digest = str(spec.get("digest", "-"))
            partition = str(spec.get("partition", "-"))
            cells = (
                Cell(group.label),
                Cell(str(seed)),
                Cell(digest, code=True),
                # Sixteen digits tell partitions apart; whole hashes would not fit a page.
                Cell(partition[:16], code=True),
                Cell(group.choice.spec, code=True),
            )
            rows.append(TableRow(cells, line_style(index)))
    heads = ("method", "seed", "run", "partition", "spec")
    table = PageTable(heads, tuple(rows), words=True)
    return Detail("Runs and their hashes", table)


def _size(results: Results) -> str:
    """Clients and samples, as the first run that knows them tells."""
    for spec in _all_specs(results):
        if "clients" in spec:
            clients = f"{spec['clients']:,} clients"
            samples = f"{spec['samples']:,} samples"
            return f"{clients}, {samples}"
    return ""


def _stopped(group: Group) -> list[str]:
    stops = []
    for seed, run in zip(group.seeds, group.runs, strict=True):
        if seed in group.unfinished:
            last_round = run.rows[-1]["round"]
            stops.append(f"{group.label} seed {seed} (round {last_round})")
    return stops


def _tuning_rows(group: Group, index: int, metric: MetricInfo) -> list[TableRow]:
    rows: list[TableRow] = []
    scores = group.choice.scores
    # The method is named in the first of its rows only.
    method = Cell(group.label)
    style: LineStyle | None = line_style(index)
    for spec, score in scores.items():
        chosen = spec == group.choice.spec
        score_text = "diverged"
        if score is not None:
            score_text = metric_value(score, metric)
        # The choice knows what all its grid points cost together, and each ran as long.
        rounds = group.choice.rounds // len(scores)
        mark = ""
        if chosen:
            mark = "chosen"
        cells = (
            method,
            Cell(spec, code=True, strong=chosen),
            Cell(score_text, strong=chosen),
            Cell(f"{rounds:,}", strong=chosen),
            Cell(mark),
        )
        rows.append(TableRow(cells, style))
        method = Cell("")
        style = None
    return rows


def _programs(versions: Mapping[str, str]) -> str:
    named = [f"{name} {version}" for name, version in versions.items()]
    return ", ".join(named)
