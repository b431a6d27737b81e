"""The methods as their docstrings tell them, read without importing anything heavy."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import takewhile

FIRST = ("averaging.py", "armijo.py")  # files of the zoo: averaging, then the paper's own
# files of `authors`, in this order
PROGRAMS = ("averaging.py", "searching.py", "running_sums.py", "later.py")

LABEL = re.compile(r"[A-Z][a-z ]+: ")  # Paper: and Special case: begin paragraphs
# A and B, or A, B and C, or A et al., or A; the title follows behind a comma
AUTHORS = re.compile(
    r"(?:[A-Z][A-Za-z]+, )*[A-Z][A-Za-z]+ (?:and [A-Z][A-Za-z]+|et al\.)(?=, )"
    r"|[A-Z][A-Za-z]+(?=, )"
)
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
PARENTHESIS = re.compile(r" \([^)]*\)")


@dataclass(frozen=True)
class Entry:
    """A method: its name, call, docstring with the lines that are always there, and what its file
    says of the family.
    """

    name: str
    signature: str
    doc: str
    family: str

    @property
    def summary(self) -> str:
        return self.doc.splitlines()[0]

    def paragraph(self, label: str) -> str:
        """What stands behind `label:` in the docstring, up to the next label or an empty line."""
        _, found, behind = self.doc.partition(f"\n{label}:")
        if not found:
            return ""
        lines = takewhile(lambda line: line and not LABEL.match(line), behind.splitlines())
        return " ".join(line.strip() for line in lines).strip()

    @property
    def citation(self) -> str:
        """Authors and year, as a line of a list has room for them."""
        paper = self.paragraph("Paper")
        if not paper:
            return "as the published program runs it"
        authors = AUTHORS.match(paper)
        years = YEAR.findall(paper)
        # the last year: titles may hold one, too
        if authors and years:
            return f"{authors[0]}, {years[-1]}"
        # the paper of this library is named by its title, and what has no paper by the reason
        return PARENTHESIS.sub("", paper).rstrip(".")


def catalog() -> list[Entry]:
    """Every method of the zoo, then those of the published programs."""
    package = files("fedstep")
    # parsed, not imported: `fedstep list` takes as long as torch needs to load otherwise
    modules = [f for f in package.joinpath("zoo").iterdir() if f.name.endswith(".py")]
    entries: list[Entry] = []
    for module in sorted(modules, key=_place):
        entries.extend(_read(module, prefix=""))
    for name in PROGRAMS:
        module = package.joinpath("authors", name)
        entries.extend(_read(module, prefix="authors."))
    return entries


def methods_markdown(entries: list[Entry]) -> str:
    """The methods of the zoo as tables, one a family; the index of their pages."""
    families: dict[str, list[Entry]] = {}
    for entry in entries:
        if "." not in entry.name:  # the published programs' variants have no pages
            families.setdefault(entry.family, []).append(entry)
    tables = [_family_markdown(family, members) for family, members in families.items()]
    return "\n\n".join(tables) + "\n"


def _family_markdown(family: str, entries: list[Entry]) -> str:
    lines = [f"## {family}", "", "| method | in a sentence |", "|---|---|"]
    for entry in entries:
        sentence = entry.summary.rstrip(".").replace("|", "\\|")
        lines.append(f"| [{entry.name}]({entry.name}.md) | {sentence} |")
    return "\n".join(lines)


def _place(file: Traversable) -> tuple[int, str]:
    """The averaging methods first, the paper's own next, the rest by name."""
    if file.name in FIRST:
        return FIRST.index(file.name), file.name
    return len(FIRST), file.name


def _read(file: Traversable, prefix: str) -> Iterator[Entry]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    family = (ast.get_docstring(tree) or "").partition("\n")[0].rstrip(".")
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
            continue
        name = prefix + node.name
        yield Entry(
            name=name,
            signature=f"{name}({_arguments(node.args)})".replace("FIRST_STEP", _first_step()),
            doc=inspect.cleandoc(ast.get_docstring(node) or ""),
            family=family,
        )


@cache
def _first_step() -> str:
    """The number behind the one constant that signatures name."""
    text = files("fedstep").joinpath("steps", "search.py").read_text(encoding="utf-8")
    _, _, number = text.partition("\nFIRST_STEP = ")
    return number.partition("\n")[0]


def _arguments(args: ast.arguments) -> str:
    """The settings with their defaults; every setting of a method has one."""
    with_default = args.args[len(args.args) - len(args.defaults) :]
    settings = []
    for argument, default in zip(with_default, args.defaults, strict=True):
        settings.append(f"{argument.arg}={ast.unparse(default)}")
    return ", ".join(settings)
