"""Methods as text: `fedexpsls(c=0.1, reset=Restart())`.

Every method also takes the slots that are independent of all others: `fedsls(readout=Tail(), weighting=BySamples())`,
`fedavg(codec=TopK(fraction=0.01))`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from functools import cache
from typing import Any

from fedstep import authors, zoo
from fedstep.algorithm import Algorithm
from fedstep.core.calls import Language
from fedstep.core.errors import InputError
from fedstep.local import preconditioned
from fedstep.server import clients, codecs, readouts
from fedstep.steps import conditions, proposals, references, resets

SLOTS = {"readout": readouts.Last(), "weighting": clients.Equal(), "codec": codecs.Plain()}

HOMES = (
    conditions,
    references,
    resets,
    proposals,
    preconditioned,
    readouts,
    clients,
    codecs,
)  # of the parts that a text may name


@cache
def methods() -> dict[str, Callable[..., Algorithm]]:
    """Every named method; those of the published programs begin with `authors.`."""
    own = {name: getattr(zoo, name) for name in zoo.__all__}
    theirs = {f"authors.{name}": f for name, f in vars(authors).items() if _is_method(f, authors.__name__)}
    return {**own, **theirs}


def build(spec: str) -> Algorithm:
    """The algorithm that a text names.

    >>> build("fedavg(step=0.5)").local.step
    Constant(step=0.5)
    """
    made = _language().build(spec)
    if not isinstance(made, Algorithm):
        raise InputError(f"{spec!r} is not a method")
    return made


def method(name: str) -> Callable[..., Algorithm]:
    """The constructor of a named method."""
    return _language().maker(name)


@cache
def _language() -> Language:
    parts = {n: p for home in HOMES for n, p in vars(home).items() if _is_part(p, home.__name__)}
    return Language("method", {n: _with_slots(f) for n, f in methods().items()}, parts, "fedsls(c=0.1)", "Restart()")


def _with_slots(method: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    """The constructor with the keywords of SLOTS besides its own."""

    def make(**given: Any) -> Algorithm:
        slots = {name: given.pop(name) for name in SLOTS if name in given}
        return replace(method(**given), **slots)

    own = inspect.signature(method)
    more = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=d) for n, d in SLOTS.items()]
    make.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    return make


def _is_part(value: object, module: str) -> bool:
    return inspect.isclass(value) and value.__module__ == module and is_dataclass(value)


def _is_method(value: object, module: str) -> bool:
    return inspect.isfunction(value) and value.__module__ == module and not value.__name__.startswith("_")
