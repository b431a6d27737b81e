"""The documentation's code runs as it stands, its commands exist, its links lead somewhere."""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest

from fedstep import zoo
from fedstep.cli import parser

DOCS = Path(__file__).parents[2] / "docs"
# Blocks that need what a reader has: a module and clients of their own, or the other side of a
# bridge, whose own tests run the same calls.
GIVEN = {"authors.md", "flower.md", "cluster.md"}
PAGES = sorted(p.relative_to(DOCS).as_posix() for p in DOCS.rglob("*.md"))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)


def blocks(page, language):
    text = (DOCS / page).read_text()
    return [code for kind, code in BLOCK.findall(text) if kind == language]


WITH_CODE = [page for page in PAGES if blocks(page, "python") and page not in GIVEN]


@pytest.mark.parametrize("page", WITH_CODE)
def test_the_code_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    if page == "lora.md":
        pytest.skip("minutes, and an extra: its notebook is run in the slow group")
    if page == "hugging-face.md":
        pytest.importorskip("transformers", reason="`make test-extras` runs it")
        pytest.importorskip("datasets")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for code in blocks(page, "python"):
        exec(compile(code, page, "exec"), names)


@pytest.mark.parametrize("page", sorted(GIVEN))
def test_code_that_needs_the_readers_own_things_can_be_parsed(page):
    for code in blocks(page, "python"):
        compile(code, page, "exec")


def commands():
    for page in PAGES:
        text = (DOCS / page).read_text()
        found = re.findall(r"`(fedstep [a-z][^`\n]*)`", text)
        for code in blocks(page, "sh"):
            found += [line for line in code.splitlines() if line.startswith("fedstep ")]
        for command in found:
            yield page, command


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())))
def test_the_commands_of_a_page_exist_with_their_options(page, command, capsys):
    words = shlex.split(command)[1:]
    names = list(takewhile(lambda word: not word.startswith("-") and word.islower(), words))[:1]
    with pytest.raises(SystemExit) as end:
        parser().parse_args([*names, "--help"])
    assert end.value.code == 0
    help_text = capsys.readouterr().out
    for option in [word.split("=")[0] for word in words if word.startswith("--")]:
        assert f"{option} " in help_text or f"{option}\n" in help_text or f"{option}]" in help_text


@pytest.mark.parametrize("page", [p for p in PAGES if not p.startswith("methods/")])
def test_links_of_a_page_lead_somewhere(page):
    text = BLOCK.sub("", (DOCS / page).read_text())
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        assert ((DOCS / page).parent / target).exists(), target


def test_the_map_for_assistants_leads_somewhere():
    text = (DOCS / "llms.txt").read_text()
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert len(targets) > 8
    assert [target for target in targets if not (DOCS / target).exists()] == []


def test_every_page_is_in_the_navigation():
    listed = (DOCS.parent / "mkdocs.yml").read_text()
    lost = [page for page in PAGES if "/" not in page and f" {page}\n" not in listed]
    assert lost == [], "give them a place in the `nav` of mkdocs.yml"


# they compare embeddings, and the plane has none
WITHOUT_PATH = {"moon", "fedproto"}


@pytest.mark.parametrize("name", sorted(set(zoo.__all__) - WITHOUT_PATH))
def test_the_page_of_a_method_shows_its_path(name):
    text = (DOCS / "methods" / f"{name}.md").read_text()
    picture = DOCS / "images" / "methods" / f"{name}.svg"
    assert f"(../images/methods/{name}.svg)" in text
    assert picture.exists(), f"python docs/pictures.py {name} draws it"
    assert picture.read_text().startswith("<svg ")
