"""The methods as their docstrings tell them, read without importing anything heavy."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Entry:
    """A method: its name, call, docstring, and the lines that are always there."""

    name: str
    signature: str
    doc: str

    @property
    def summary(self) -> str:
        return self.doc.splitlines()[0]

    def line(self, label: str) -> str:
        """What stands behind `label:` in the docstring."""
        found = (
            line.removeprefix(f"{label}:").strip() for line in self.doc.splitlines() if line.startswith(f"{label}:")
        )
        return next(found, "")


def catalog() -> list[Entry]:
    """Every method of the zoo, then those of the published programs."""
    return [*_read("zoo", ""), *_read("authors", "authors.")]


def _read(module: str, prefix: str) -> Iterator[Entry]:
    tree = ast.parse(files("fedstep").joinpath(f"{module}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            doc = inspect.cleandoc(ast.get_docstring(node) or "")
            yield Entry(prefix + node.name, f"{prefix}{node.name}({_arguments(node.args)})", doc)


def _arguments(args: ast.arguments) -> str:
    given = zip(args.args[len(args.args) - len(args.defaults) :], args.defaults, strict=True)
    return ", ".join(f"{a.arg}={ast.unparse(d)}" for a, d in given)
