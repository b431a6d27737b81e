"""What is published: one version, few dependencies, the extras that texts name, workflows of make targets."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import fedstep

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements):
    return {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}


def test_the_version_stands_in_one_place():
    assert PROJECT["dynamic"] == ["version"]
    assert "version" not in PROJECT
    assert f"version: {fedstep.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_core_needs_little():
    few = {"torch", "numpy", "rich", "safetensors"}
    assert few <= names(PROJECT["dependencies"])
    assert len(names(PROJECT["dependencies"]) - few) <= 2


def test_the_extras_are_there():
    wanted = {"hf", "pandas", "trackers", "report", "ray", "flower", "docs", "demo", "completion"}
    assert wanted <= set(PROJECT["optional-dependencies"])


def test_texts_name_extras_that_exist():
    for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"):
        for extras in re.findall(r"fedstep\[([\w,]+)\]", path.read_text()):
            unknown = set(extras.split(",")) - set(PROJECT["optional-dependencies"])
            assert not unknown, path


def test_workflows_call_make_targets_that_exist():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    called = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        text = path.read_text()
        called |= set(re.findall(r"run: make ([\w-]+)", text))
        for listed in re.findall(r"target: \[([^\]]+)\]", text):
            called |= {target.strip() for target in listed.split(",")}
    assert {"test", "docs", "package", "slow"} <= called
    assert called <= targets


def test_the_docs_environment_pins_what_the_extra_names():
    pinned = names((ROOT / "docs" / "requirements.txt").read_text().splitlines())
    assert names(PROJECT["optional-dependencies"]["docs"]) <= pinned
