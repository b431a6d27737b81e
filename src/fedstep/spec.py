"""Methods and mixtures as text: `fedexpsls(c=0.1, reset=Restart())`, `fedsls(server=Adaptive(moment=Average()))`.

Besides its own arguments every method takes every slot by name. What is given replaces what the method has there; `terms` are
added to the method's own. Slots and parts are found by looking at the library: a new one needs no entry here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from fedstep import authors, corrections, local, server, steps, zoo
from fedstep.algorithm import Algorithm
from fedstep.core.calls import Language
from fedstep.core.errors import InputError
from fedstep.core.fits import accepts, hints
from fedstep.local.solver import LocalSolver

HOMES = (steps, local, corrections, server)  # the packages that hold the parts
MOVING = (
    "Tensor",
    "Vec",
    "Scalar",
    "State",
    "Context",
    "Batch",
    "Phi",
    "Objective",
)  # what no part's setting is


@dataclass(frozen=True)
class Slot:
    """What may fill a slot, what fills it in plain averaging, and whether it belongs to the client's solver."""

    kind: Any
    plain: Any
    local: bool = False


def _slots(plain: Algorithm) -> dict[str, Slot]:
    """Every field of the client's solver and of the algorithm."""
    solver, whole = hints(LocalSolver), hints(Algorithm)
    inner = {
        f.name: Slot(solver[f.name], getattr(plain.local, f.name), True)
        for f in fields(plain.local)
    }
    first = {name: inner.pop(name) for name in ("terms", "oracle", "direction")}
    return {
        **first,
        **inner,
        **{f.name: Slot(whole[f.name], getattr(plain, f.name)) for f in fields(plain)},
    }


SLOTS: Mapping[str, Slot] = _slots(zoo.fedavg())


@cache
def methods() -> dict[str, Callable[..., Algorithm]]:
    """Every named method; those of the published programs begin with `authors.`."""
    own = {name: getattr(zoo, name) for name in zoo.__all__}
    theirs = {
        f"authors.{name}": f for name, f in vars(authors).items() if _is_method(f, authors.__name__)
    }
    return {**own, **theirs}


@cache
def parts() -> dict[str, type]:
    """Every part by name."""
    modules = (m for home in HOMES for m in _modules(home))
    return {
        name: part for m in modules for name, part in vars(m).items() if _is_part(part, m.__name__)
    }


def build(spec: str) -> Algorithm:
    """The algorithm that a text names.

    >>> build("fedavg(step=0.5)").local.step
    Constant(step=0.5)
    >>> build("fedavg(step=LineSearch())") == build("fedsls")
    True
    """
    made = _language().build(spec)
    if not isinstance(made, Algorithm):
        raise InputError(f"{spec!r} is not a method")
    return made


def method(name: str) -> Callable[..., Algorithm]:
    """The constructor of a named method, which takes the slots too."""
    return _language().maker(name)


def filled(algorithm: Algorithm, slot: str) -> Any:
    """What fills a slot of an algorithm."""
    return getattr(algorithm.local if SLOTS[slot].local else algorithm, slot)


def shown(algorithm: Algorithm) -> list[str]:
    """The slots that tell an algorithm: those of the client's solver, or `local`, another solver in its place."""
    usual = type(algorithm.local) is LocalSolver
    return [
        name
        for name, slot in SLOTS.items()
        if (usual if slot.local else name != "local" or not usual)
    ]


def mix(algorithm: Algorithm, **given: Any) -> Algorithm:
    """The algorithm with some slots filled anew; `terms` are added to its own.

    >>> mix(zoo.fedsls(), server=zoo.fedadam().server).local == zoo.fedsls().local
    True
    """
    solver = given.pop("local", algorithm.local)
    if "terms" in given:
        given["terms"] = (*solver.terms, *given["terms"])
    client = {name: part for name, part in given.items() if SLOTS[name].local}
    outer = {name: part for name, part in given.items() if not SLOTS[name].local}
    return replace(algorithm, local=replace(solver, **client), **outer)


@cache
def _language() -> Language:
    makers = {n: _with_slots(f) for n, f in methods().items()}
    return Language("method", makers, parts(), "fedsls(c=0.1)", "Restart()")


def _with_slots(method: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    """The constructor with a keyword for every slot; one that it has itself, such as `step`, stays its own for its own kind."""
    own, kinds = inspect.signature(method).parameters, hints(method)

    def make(**given: Any) -> Algorithm:
        slots = {
            n: v
            for n, v in given.items()
            if n in SLOTS and not (n in own and accepts(kinds.get(n), v))
        }
        return mix(method(**{n: v for n, v in given.items() if n not in slots}), **slots)

    more = [
        inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=s.plain)
        for n, s in SLOTS.items()
        if n not in own
    ]
    make.__signature__ = inspect.Signature([*own.values(), *more])  # type: ignore[attr-defined]
    make.__annotations__ = {
        **kinds,
        **{n: s.kind | kinds[n] if n in own else s.kind for n, s in SLOTS.items()},
    }
    return make


def _modules(home: ModuleType) -> list[ModuleType]:
    return [import_module(f"{home.__name__}.{found.name}") for found in iter_modules(home.__path__)]


def _is_part(value: object, module: str) -> bool:
    """Whether it is a public dataclass of the module that holds settings, not the tensors of a run."""
    public = (
        inspect.isclass(value) and value.__module__ == module and not value.__name__.startswith("_")
    )
    if not public or not is_dataclass(value):
        return False
    return not any(word in str(f.type) for f in fields(value) for word in MOVING)


def _is_method(value: object, module: str) -> bool:
    return (
        inspect.isfunction(value)
        and value.__module__ == module
        and not value.__name__.startswith("_")
    )
