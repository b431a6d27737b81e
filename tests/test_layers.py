"""Imports point down only, and the mathematics touches nothing of the machine."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "fedstep"
LAYERS = [
    ["core"],
    ["steps"],
    ["local"],
    ["corrections", "server"],
    ["messages"],
    ["algorithm"],
    ["data", "optim"],
    ["zoo", "authors", "models"],
    ["spec", "execute"],
    ["run"],
    ["study"],
    ["analysis"],
    ["report"],
    ["leaderboard"],
    ["watch"],
    ["callbacks"],
    ["training"],
    ["remote"],
    ["flower"],
    ["paper"],
    ["cli"],
    ["__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
EXTRAS = {
    "shtab": "cli/completion.py",
    "sklearn": "data/samples.py",
    "matplotlib": "report/figures.py",
    "jinja2": "report/render.py",
    "datasets": "data/hub.py",
    "pandas": "training/result.py",
    "mlflow": "callbacks/trackers.py",
    "wandb": "callbacks/trackers.py",
    "pyarrow": "analysis/export.py",
    "flwr_datasets": "data/hub.py",
    "flwr": "flower",
    "dp_accounting": "run/privacy.py",
    "ray": "execute/ray_session.py",
}
MACHINE = {"os", "time", "logging", "random", "numpy", "pathlib", "sys", "io"}
FILES = sorted(p for p in SRC.rglob("*.py") if p != SRC / "__init__.py")


def unit(path):
    first = path.relative_to(SRC).parts[0]
    return first.removesuffix(".py")


@cache
def nodes(path):
    # walked once a file: three tests look at every one of them
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imports(path):
    names = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
            if node.module == "fedstep":
                names += [f"fedstep.{a.name}" for a in node.names]
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_point_down(path):
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "fedstep" and len(parts) > 1 and parts[1] not in ("__version__",):
            assert LEVEL[parts[1]] <= LEVEL[unit(path)], f"{path.relative_to(SRC)} imports {name}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_extras_are_imported_in_their_one_module(path):
    for name in imports(path):
        homes = EXTRAS.get(name.split(".")[0])
        if homes is None:
            continue
        if isinstance(homes, str):
            homes = (homes,)
        assert any(path.is_relative_to(SRC / home) for home in homes), (
            f"{path.relative_to(SRC)} imports {name}"
        )


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if LEVEL[unit(p)] <= LEVEL["algorithm"]],
    ids=lambda p: str(p.relative_to(SRC)),
)
def test_mathematics_knows_nothing_of_the_machine(path):
    assert not {n.split(".")[0] for n in imports(path)} & MACHINE
    calls = {
        n.func.id for n in nodes(path) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    assert "print" not in calls


def test_files_stay_short():
    long = {
        str(p.relative_to(SRC)): n for p in FILES if (n := len(p.read_text().splitlines())) > 300
    }
    assert not long


def test_importing_the_package_is_light():
    import subprocess
    import sys

    code = "import sys, fedstep; fedstep.__version__; assert not {'torch', 'rich', 'numpy'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
