"""Pages as HTML: one template, autoescape on, one file without network."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from fedstep.core.errors import MissingExtra
from fedstep.report.page import Figure, Page
from fedstep.report.style import COLOURS, LineStyle, colour_pair
from fedstep.report.svg import swatch
from fedstep.run.files import write_text

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = Path(__file__).parent / "templates"


def render(page: Page, template: str = "page.html", **context: str) -> str:
    """The whole document; `context` is for templates that say more than the page does."""
    document = _environment().get_template(template)
    # the legend names every line that a chart can have
    count = max(len(COLOURS), len(page.legend))
    colours = [colour_pair(index) for index in range(count)]
    return document.render(page=page, colours=colours, **context)


def write_page(path: Path, page: Page) -> Path:
    """Write the page and return its absolute path."""
    write_text(path, render(page))
    return path.resolve()


@contextmanager
def page_if_possible() -> Iterator[None]:
    """Around a page that is written beside the files of a run: the run is whole without it."""
    try:
        yield
    except MissingExtra as lack:
        warnings.warn(f"no page was written: {lack}", stacklevel=3)


@cache
def _environment() -> Environment:
    # torch brings jinja2 along; whoever has a torch without it can do all but write pages
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError:
        raise MissingExtra("a page needs jinja2: pip install 'fedstep[report]'") from None
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        # Labels, specs and settings come from files that anyone may have written.
        autoescape=True,
        # A misspelt field fails here; it would be an empty place on the page.
        undefined=StrictUndefined,
        # The lines of the template's own statements leave no empty lines behind.
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["drawing"] = _drawing
    environment.filters["swatch"] = _swatch
    environment.filters["csv_link"] = _csv_link
    environment.filters["file_name"] = _file_name
    environment.filters["whole"] = _whole
    environment.filters["prose"] = _prose
    return environment


def _drawing(svg: str) -> Markup:
    """The only text that enters a page as it stands: our own drawings, escaped by `markup`."""
    from markupsafe import Markup

    return Markup(svg)


def _swatch(style: LineStyle) -> Markup:
    return _drawing(swatch(style))


def _csv_link(figure: Figure) -> str:
    """The numbers of a figure inside the address: the page stays one file and asks no server."""
    # Commas and the like may stand in an address: escaping them would triple their bytes.
    return "data:text/csv;charset=utf-8," + quote(figure.csv, safe=",;:()/")


def _file_name(title: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", title.lower())
    # A title in another script has no letter left.
    stem = words.strip("-") or "figure"
    return f"{stem}.csv"


def _prose(text: str) -> Markup:
    """Words that are not ours, escaped; what stands between backticks is code."""
    from markupsafe import Markup

    parts = []
    for number, part in enumerate(text.split("`")):
        frame = Markup("{}")
        if number % 2:
            frame = Markup("<code>{}</code>")
        parts.append(frame.format(part))
    return Markup("").join(parts)


def _whole(head: str) -> str:
    """A unit is not parted from its name at the end of a line."""
    return head.replace(" %", "\u00a0%")
