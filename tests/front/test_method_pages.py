"""Every method has its page and every page its method."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fedstep import build, zoo
from fedstep.cli.catalog import catalog, methods_markdown
from fedstep.steps.search import FIRST_STEP

HOME = Path(__file__).parents[2] / "docs" / "methods"
INDEX = (HOME / "README.md").read_text()
PAGES = sorted(p.stem for p in HOME.glob("*.md") if p.stem != "README")
BEGIN, END = (
    "<!-- what follows is made by: python tests/front/test_method_pages.py -->\n\n",
    "\n<!-- until here -->",
)


def made() -> str:
    """The index with the tables of the zoo as it is."""
    before, rest = INDEX.split(BEGIN)
    return before + BEGIN + methods_markdown(catalog()) + END + rest.split(END)[1]


def test_every_method_has_its_page():
    assert sorted(set(zoo.__all__) - set(PAGES)) == []


def test_every_page_has_its_method():
    # a name with a hyphen is that of a page about several
    assert sorted({p for p in PAGES if "-" not in p} - set(zoo.__all__)) == []


def test_the_index_lists_every_method_once():
    rows = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\)", INDEX, re.M)
    assert all(name == page for name, page in rows)
    assert sorted(name for name, _ in rows) == sorted(zoo.__all__)


def test_the_index_is_the_one_that_the_docstrings_make():
    assert made() == INDEX


def test_a_signature_has_the_number_of_the_first_step():
    (fedsls,) = (entry for entry in catalog() if entry.name == "fedsls")
    assert f"max_step={FIRST_STEP}, " in fedsls.signature


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_short_and_has_a_title(name):
    text = (HOME / f"{name}.md").read_text()
    assert text.startswith("# ")
    assert len(text.splitlines()) <= 60


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)#:]+)\)", (HOME / f"{name}.md").read_text()):
        assert (HOME / target).exists(), target


MIXTURES = re.findall(r"^(\w+\(.*?\)+)  ", INDEX, re.M)


def test_the_index_shows_mixtures():
    assert len(MIXTURES) >= 4


@pytest.mark.parametrize("text", MIXTURES)
def test_the_mixtures_of_the_index_can_be_built(text):
    build(text)


if __name__ == "__main__":
    (HOME / "README.md").write_text(made())
