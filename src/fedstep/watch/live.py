"""The page of a folder as it is now: the report, with the progress of its runs in front."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from fedstep.analysis.compare import compare
from fedstep.analysis.results import load_results
from fedstep.core.errors import InputError
from fedstep.report.page import Cell, Page, PageTable, Section, TableRow
from fedstep.report.report import study_page
from fedstep.watch.folders import homes
from fedstep.watch.progress_table import progress_section

WAITING = "Nothing has finished its first round yet. This page changes by itself when it has."


def home_page(home: Path) -> Page:
    """The report of one study or run; a page that says what it waits for before there is one."""
    try:
        # the same code as `fedstep report`: the two cannot show other numbers
        results = load_results(home)
        page = study_page(results, compare(results))
        progress = progress_section(results, home)
    except InputError as error:
        # a run that has only begun, or a file that is damaged: the message tells which
        return Page(title=home.name, summary=WAITING, texts=(str(error),))
    return replace(page, sections=(progress, *page.sections))


def index_page(folder: Path) -> Page:
    """The results below a folder, a line each with a link to their page."""
    rows = []
    for home in homes(folder):
        name = str(home.relative_to(folder))
        # relative, so that the token stays in front of it
        link = f"at/{quote(name)}/"
        rows.append(TableRow((Cell(name, link=link), *_summary(home))))
    if not rows:
        return Page(title=folder.name, summary=WAITING)
    table = PageTable(("name", "runs", "state", "outcome"), tuple(rows), words=True)
    section = Section("Runs and studies", tables=(table,))
    return Page(title=f"What is in {folder.name}", sections=(section,))


def _summary(home: Path) -> tuple[Cell, ...]:
    try:
        results = load_results(home)
    except InputError as error:
        return (Cell("-"), Cell("waiting"), Cell(str(error)))
    runs = sum(len(group.runs) for group in results.groups)
    unfinished = sum(len(group.unfinished) for group in results.groups)
    # a method that has not begun has no run to be unfinished
    state = "finished"
    if unfinished or results.missing:
        state = "not finished"
    page = study_page(results, compare(results))
    return (Cell(str(runs)), Cell(state), Cell(page.summary))
