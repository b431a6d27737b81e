"""Every number that results give is made from them: `python docs/numbers`."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
NUMBERS = ROOT / "docs" / "numbers"
# its modules import each other by their plain names
sys.path.insert(0, str(NUMBERS))
registry = importlib.import_module("registry")
sentences = importlib.import_module("sentences")
pages = importlib.import_module("pages")
sys.path.remove(str(NUMBERS))

PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md"))]
# Tables with measured numbers that nothing under results/ or benchmarks/results/ gives, by how
# their heads begin, and why.
BY_HAND = {
    "docs/authors.md": {
        "| | the paper prints | its program": "constants that were read in a program, not measured",
    },
    "README.md": {
        "| method | accuracy, last tenth | rounds |": "`fedstep demo` itself, one seed, on any machine",
    },
    "docs/paper.md": {
        "| round | eta_g | best eta |": "a script that looks into single rounds",
    },
    "docs/leaderboard.md": {
        "| track | what is hard |": "the tracks' own files: tests/leaderboard/test_recipe.py",
    },
    "docs/lora.md": {
        "| | after round 1 | 4 | 8 |": "the output of the page's own code",
    },
    "docs/pace.md": {
        "| change | ": "a log of what was tried, in a simulator that is not part of the library",
        "| round | ": "the same log",
    },
    "docs/speed.md": {
        "| variant | `w2`: step |": "benchmarks/deep.py, which keeps nothing",
        "| what grows | from | to |": "benchmarks/growth.py writes it into the page",
    },
    "docs/trust.md": {
        "| rule | `fedexpsls` |": "how a rule was chosen, with rules that are gone",
    },
}


def tables(text: str) -> list[str]:
    return re.findall(r"(?:^\|.*\n)+", text, re.M)


def outside_blocks(text: str) -> str:
    return re.sub(
        r"<!-- [^>]*made by python docs/numbers -->.*?<!-- until here -->", "", text, flags=re.S
    )


def has_measured_numbers(table: str) -> bool:
    """A number with digits behind the point in the place of a cell, alone or with a deviation."""
    cells = [cell.strip() for row in table.splitlines()[2:] for cell in row.strip("|").split("|")]
    return any(re.match(r"\**[-+]?\d+\.\d+\b(?!`)", cell) for cell in cells)


@pytest.mark.parametrize("page", registry.pages())
def test_a_page_has_the_numbers_of_the_results(page):
    assert registry.made(page) == (ROOT / page).read_text(), "python docs/numbers makes them anew"


@pytest.mark.parametrize("page", PAGES)
def test_a_table_of_measured_numbers_is_made_or_it_is_known_why_not(page):
    exempt = BY_HAND.get(page, {})
    found = set()
    for table in tables(outside_blocks((ROOT / page).read_text())):
        if has_measured_numbers(table):
            head = next((head for head in exempt if table.startswith(head)), None)
            assert head is not None, f"{page} has numbers that are written by hand:\n{table[:300]}"
            found.add(head)
    assert found == set(exempt), f"{page} no longer has these"


def test_every_block_of_a_page_is_made_by_somebody():
    known = {(block.page, block.name) for block in registry.blocks()}
    for page in PAGES:
        names = re.findall(r"<!-- (.*): made by python docs/numbers -->", (ROOT / page).read_text())
        assert {(page, name) for name in names} <= known


def test_reading_what_was_measured_changes_nothing_of_the_process(monkeypatch):
    # a module of somebody else with the name of a program's neighbour
    stranger = ModuleType("problems")
    monkeypatch.setitem(sys.modules, "problems", stranger)
    before = dict(os.environ), list(sys.path)
    measured = importlib.import_module("measured")
    measured.program.cache_clear()
    for path in ("far.py", "kills/run.py", "attacks.py", "suite/run.py"):
        measured.program(path)
    assert (dict(os.environ), list(sys.path)) == before
    assert sys.modules["problems"] is stranger
    assert "held_out" not in sys.modules


def sentence(words, **numbers):
    return sentences.Sentence("a page", words, lambda: numbers)


def test_a_sentence_gets_the_numbers_of_the_results_and_keeps_its_line_breaks():
    text = "Before. It ends at 72.7 and\nthey spend 1,625 rounds, or -0.5; after 7."
    words = "ends at {ours} and they spend {rounds} rounds, or {gap};"
    made = sentences.corrected(text, sentence(words, ours="73.1", rounds="never", gap="+0.25"))
    assert made == "Before. It ends at 73.1 and\nthey spend never rounds, or +0.25; after 7."
    # what was made can be made again
    again = sentences.corrected(made, sentence(words, ours="72.7", rounds="1,625", gap="-0.5"))
    assert again == text


@pytest.mark.parametrize("text", ["It begins at 72.7.", "It ends at 1. It ends at 2."])
def test_a_sentence_that_is_not_there_once_is_named(text):
    with pytest.raises(ValueError, match="not once: It ends at"):
        sentences.corrected(text, sentence("It ends at {ours}.", ours="3"))


def test_a_block_that_is_not_there_once_is_named():
    block = pages.Block("a page", "speed", lambda: "made\n")
    with pytest.raises(ValueError, match=r"a page: <!-- speed: .* 0 times, not once"):
        pages.placed("no block", block)
