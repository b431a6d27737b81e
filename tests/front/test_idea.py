"""What docs/idea.md lists of the code is the code."""

from __future__ import annotations

from pathlib import Path

from fedstep.spec import QUESTIONS, SLOTS, fillers, parts, slots_markdown

PAGE = Path(__file__).parents[2] / "docs" / "idea.md"
BEGIN = "<!-- what follows is made by: python tests/front/test_idea.py -->\n\n"
END = "\n<!-- until here -->"


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


if __name__ == "__main__":
    PAGE.write_text(made())
