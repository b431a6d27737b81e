"""A public name exists once: a reader who knows it in one file knows it in all."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SRC = Path(__file__).parents[1] / "src" / "fedstep"

# The same thing by design: every module of commands has these two, `authors` holds the methods of
# the zoo as the published programs run them, and `optim` has the Armijo search as an optimiser.
COMMANDS = {"register", "run"}


def public_names():
    homes = defaultdict(list)
    for path in sorted(SRC.rglob("*.py")):
        module = path.relative_to(SRC)
        for node in ast.parse(path.read_text()).body:
            named = isinstance(node, ast.FunctionDef | ast.ClassDef)
            if named and not node.name.startswith("_"):
                homes[node.name].append(str(module))
    return homes


def allowed(name, homes):
    if name in COMMANDS:
        return all(home.startswith("cli/") for home in homes)
    if name == "Armijo":
        return homes == ["optim/armijo.py", "steps/conditions.py"]
    others = [home for home in homes if not home.startswith("authors/")]
    return len(others) == 1 and others[0].startswith("zoo/")


def test_no_public_class_or_function_exists_twice():
    twice = {name: homes for name, homes in public_names().items() if len(homes) > 1}
    assert not {name: homes for name, homes in twice.items() if not allowed(name, homes)}
