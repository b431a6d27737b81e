"""What docs/idea.md lists of the code is the code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from fedstep.spec import QUESTIONS, SLOTS, fillers, parts, slots_markdown

PAGE = Path(__file__).parents[2] / "docs" / "idea.md"
BEGIN = "<!-- what follows is made by: python tests/front/test_idea.py -->\n\n"
END = "\n<!-- until here -->"
SRC = Path(__file__).parents[2] / "src" / "fedstep"


def made() -> str:
    """The page with the tables of the library as it is."""
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[-1]
    return before + BEGIN + slots_markdown() + END + after


def test_the_page_lists_the_slots_and_fillers_that_there_are():
    assert made() == PAGE.read_text()


def test_every_slot_has_its_question():
    assert set(QUESTIONS) == set(SLOTS) - {"local"}


def test_every_part_is_in_the_tables():
    solvers = set(fillers("local"))
    listed = slots_markdown()
    assert [name for name in parts() if f"`{name}`" not in listed and name not in solvers] == []


def defined(file: Path) -> set[str]:
    """Functions and classes of a file, and methods as Class.method."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            names.update(f"{node.name}.{part.name}" for part in inner)
    return names


def test_the_tour_of_a_round_names_what_there_is():
    tour = re.search(r"^## One round, file by file\n(.*?)^## ", PAGE.read_text(), re.M | re.S)[1]
    places = re.findall(r"`([\w/]+\.py): ([\w.]+)`", tour)
    assert len(places) > 20
    assert [place for place in places if place[1] not in defined(SRC / place[0])] == []


if __name__ == "__main__":
    PAGE.write_text(made())
