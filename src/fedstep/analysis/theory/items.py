"""Every definition, lemma, theorem and remark of the paper with its check: the text is items.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from fedstep.analysis.theory import checks

CHECKS: dict[str, Callable[[], checks.Evidence]] = {
    "D1": checks.client_interpolation,
    "D2": checks.armijo_condition,
    "D3": checks.accuracy_at_a_minimiser,
    "R1": checks.accuracy_under_interpolation,
    "L1": checks.heterogeneity,
    "L2": checks.average_decrease,
    "L3": checks.step_sizes,
    "L4": checks.client_drift,
    "T1a": checks.sgd_convex,
    "T1b": checks.sgd_nonconvex,
    "T2": checks.fedsls_convex,
    "T3": checks.fedsls_strongly_convex,
    "T4": checks.fedsls_nonconvex,
    "T5": checks.fedexpsls_convex,
    "T6": checks.fedexpsls_strongly_convex,
    "T7": checks.fedexpsls_nonconvex,
}


@dataclass(frozen=True)
class Item:
    """One numbered item of the paper."""

    key: str  # as `fedstep theory` takes it
    name: str
    about: str
    statement: str
    hypotheses: str
    tested: str
    why: str  # the proof, or the cause of the error
    instead: str = ""  # what can be proved
    numbered: bool = False  # a source gives the number
    rebuilt: bool = False  # the wording is ours, too

    @property
    def title(self) -> str:
        """The name, with a star where the number is ours and a dagger where the wording is."""
        return self.name + "*" * (not self.numbered) + "†" * self.rebuilt

    def check(self) -> checks.Evidence:
        """Run it."""
        return CHECKS[self.key]()

    def record(self) -> dict[str, Any]:
        """With what a run gives."""
        evidence = self.check()
        return asdict(self) | asdict(evidence) | {"verdict": evidence.verdict}

    def row(self, evidence: checks.Evidence) -> tuple[str, ...]:
        """A line of the table of all items."""
        first = evidence.inequalities[0].numbers
        return (self.key, self.title, self.about, self.tested, evidence.verdict, first)

    def lines(self, evidence: checks.Evidence) -> list[tuple[str, str]]:
        """All of it."""
        met = [f"{'met' if one.met else 'NOT met'}: {one.what}" for one in evidence.premises]
        found = [f"{pair.what}: {pair.numbers}" for pair in evidence.inequalities]
        return [
            (self.key, f"{self.title}: {self.about}"),
            ("statement", self.statement),
            ("hypotheses", self.hypotheses),
            ("tested", self.tested),
            ("instance", evidence.instance),
            *(("", line) for line in (*met, *found)),
            ("verdict", evidence.verdict),
            ("why", self.why),
            ("instead", self.instead or "-"),
        ]


class Misprint(NamedTuple):
    """A slip of the paper."""

    where: str
    printed: str
    right: str


@cache
def paper_items() -> tuple[Item, ...]:
    """In the order of the page."""
    page = _page()
    shared = page["shared"]
    made = []
    for key in CHECKS:
        entry = dict(page[key])
        for name, value in entry.items():
            if isinstance(value, str):
                entry[name] = _filled(value, shared)
        made.append(Item(key, **entry))
    return tuple(made)


def paper_misprints() -> list[Misprint]:
    """In the order of the page."""
    return [Misprint(**entry) for entry in _page()["misprint"]]


def items_named(text: str) -> list[Item]:
    """`T4` or `theorem 4`; `T1` is both parts of Theorem 1. Empty: the text names no item."""
    word = text.lower().replace(" ", "").replace("-", "")
    for kind in ("definition", "remark", "lemma", "theorem"):
        word = word.replace(kind, kind[0])
    return [item for item in paper_items() if word in (item.key.lower(), item.key[:2].lower())]


def _page() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("items.toml").read_text("utf-8"))


def _filled(text: str, shared: dict[str, str]) -> str:
    """With what several items share; a shared text may name another."""
    for _ in range(2):
        for name, value in shared.items():
            text = text.replace(f"{{{name}}}", value)
    return text
