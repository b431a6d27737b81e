"""The recipes for contributors end green when they are followed to the letter, in a copy."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
TEXT = (HOME / "CONTRIBUTING.md").read_text()
COPIED = ("src", "tests", "docs", "pyproject.toml")
RECIPES = (
    "A method",
    "A server rule with state",
    "An executor",
    "A metric",
    "A data set",
)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the place in its first line, and what is to be put there."""

    language: str
    place: str
    content: str


def blocks(title: str) -> list[Block]:
    """The blocks of a recipe, in their order."""
    recipe = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.M | re.S)[1]
    made = []
    for language, content in re.findall(r"^```(\w+)\n(.*?)^```", recipe, re.M | re.S):
        place, rest = "", content
        if language != "sh":
            first, rest = content.split("\n", 1)
            place = first.removeprefix("# ").removeprefix("<!-- ").removesuffix(" -->")
        made.append(Block(language, place, rest))
    return made


def put(block: Block, home: Path) -> None:
    """Write a new file, or put lines beside the one that is named; that line must be there once.

    Where a recipe has been followed already it is followed again: this test stays green in the
    clone of whoever has just done so.
    """
    path, how = block.place.split(", ", 1)
    file = home / path
    if how == "new":
        file.write_text(block.content)
        return
    where, line = how.split(": ", 1)
    text = file.read_text()
    if f"\n{block.content}" in text:
        return
    lines = text.splitlines(keepends=True)
    places = [k for k in range(len(lines)) if lines[k].strip() == line]
    assert len(places) == 1, f"{path} has {len(places)} lines {line!r}"
    lines.insert(places[0] + {"before": 0, "after": 1}[where], block.content)
    file.write_text("".join(lines))


def run(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    """A line of shell, with this Python and the copy's source."""
    words = shlex.split(command)
    assert words[0] == "python"
    environment = {**os.environ, "PYTHONPATH": str(home / "src"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *words[1:]],
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The repository without its results."""
    home = tmp_path_factory.mktemp("clone")
    for name in COPIED:
        source = HOME / name
        if source.is_dir():
            shutil.copytree(source, home / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, home / name)
    return home


@pytest.mark.parametrize("title", RECIPES)
def test_the_recipe_ends_green_when_followed_to_the_letter(title, copy):
    commands = []
    for block in blocks(title):
        if block.language == "sh":
            commands += block.content.splitlines()
        else:
            put(block, copy)
    assert commands
    for command in commands:
        done = run(command, copy)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-2000:]}"


def test_every_recipe_that_the_text_promises_is_followed():
    links = re.findall(r"\[[^\]]*\]\(#([\w-]+)\)", TEXT)
    assert set(links) == {title.lower().replace(" ", "-") for title in RECIPES}


def test_the_method_of_the_recipe_is_documented_as_the_zoo_is():
    method = next(b for b in blocks("A method") if b.place.startswith("src/fedstep/zoo/fair.py"))
    assert "Paper:" in method.content
    assert "Special case:" in method.content
