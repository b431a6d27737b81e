"""The methods as their docstrings tell them, read without importing anything heavy."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable


@dataclass(frozen=True)
class Entry:
    """A method: its name, call, docstring with the lines that are always there, and what its file says of the family."""

    name: str
    signature: str
    doc: str
    family: str

    @property
    def summary(self) -> str:
        return self.doc.splitlines()[0]

    def line(self, label: str) -> str:
        """What stands behind `label:` in the docstring."""
        found = (
            line.removeprefix(f"{label}:").strip()
            for line in self.doc.splitlines()
            if line.startswith(f"{label}:")
        )
        return next(found, "")


def catalog() -> list[Entry]:
    """Every method of the zoo, then those of the published programs."""
    package = files("fedstep")
    zoo = sorted(
        (f for f in package.joinpath("zoo").iterdir() if f.name.endswith(".py")), key=_place
    )
    return [
        *(e for f in zoo for e in _read(f, "")),
        *_read(package.joinpath("authors.py"), "authors."),
    ]


def methods_markdown(entries: list[Entry]) -> str:
    """The methods of the zoo as tables, one a family; the index of their pages."""
    own = [e for e in entries if "." not in e.name]
    parts = []
    for family in dict.fromkeys(e.family for e in own):
        rows = [
            f"| [{e.name}]({e.name}.md) | {e.summary.rstrip('.').replace('|', chr(92) + '|')} |"
            for e in own
            if e.family == family
        ]
        parts.append(
            "\n".join([f"## {family}", "", "| method | in a sentence |", "|---|---|", *rows])
        )
    return "\n\n".join(parts) + "\n"


def _place(file: Traversable) -> tuple[int, str]:
    """The averaging methods first, the paper's own next, the rest by name."""
    first = ("averaging.py", "armijo.py")
    return (first.index(file.name) if file.name in first else len(first), file.name)


def _read(file: Traversable, prefix: str) -> Iterator[Entry]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    family = (ast.get_docstring(tree) or "").partition("\n")[0].rstrip(".")
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            doc = inspect.cleandoc(ast.get_docstring(node) or "")
            yield Entry(
                prefix + node.name, f"{prefix}{node.name}({_arguments(node.args)})", doc, family
            )


def _arguments(args: ast.arguments) -> str:
    given = zip(args.args[len(args.args) - len(args.defaults) :], args.defaults, strict=True)
    return ", ".join(f"{a.arg}={ast.unparse(d)}" for a, d in given)
