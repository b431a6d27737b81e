"""Methods as text: `fedexpsls(c=0.1, reset=Restart())`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache

from fedstep import authors, zoo
from fedstep.algorithm import Algorithm
from fedstep.core.calls import Language
from fedstep.core.errors import InputError
from fedstep.steps import resets


@cache
def methods() -> dict[str, Callable[..., Algorithm]]:
    """Every named method; those of the published programs begin with `authors.`."""
    own = {name: f for name, f in vars(zoo).items() if _is_method(f, zoo.__name__)}
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
    parts = {n: p for n, p in vars(resets).items() if inspect.isclass(p) and p.__module__ == resets.__name__}
    return Language("method", methods(), parts, "fedsls(c=0.1)", "Restart()")


def _is_method(value: object, module: str) -> bool:
    return inspect.isfunction(value) and value.__module__ == module and not value.__name__.startswith("_")
