"""Methods and mixtures as text: `fedexpsls(c=0.1, reset=Restart())`, `fedsls(server=Step(step=2))`.

Besides its own arguments every method takes every slot by name. What is given replaces what the
method has there; `terms` are added to the method's own. Slots are the fields of `Algorithm` and
`LocalSolver`, and what fills them derives from the slot's base class: a new part needs no entry
here.
"""

from __future__ import annotations

import inspect
import warnings
from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, get_args

from fedstep import authors, corrections, local, server, steps, zoo
from fedstep.algorithm import Algorithm
from fedstep.core.annotations import accepts, hints
from fedstep.core.calls import Language
from fedstep.core.errors import InputError
from fedstep.local.solver import LocalSolver

HOMES = (steps, local, corrections, server)  # the packages that hold the parts
PLUGINS = "fedstep.methods"  # the entry points by which other packages bring methods


@dataclass(frozen=True)
class Slot:
    """What may fill a slot, what fills it in plain averaging, and whose it is."""

    kind: Any
    plain: Any
    local: bool = False  # whether it belongs to the client's solver

    @property
    def base(self) -> type:
        """The class that every filler derives from; a slot for several takes a tuple of them."""
        several = get_args(self.kind)
        if several:
            return several[0]  # type: ignore[no-any-return]
        return self.kind  # type: ignore[no-any-return]


def _slots(plain: Algorithm) -> dict[str, Slot]:
    """Every field of the client's solver and of the algorithm."""
    kinds = hints(LocalSolver)
    of_solver = {}
    for each in fields(plain.local):
        of_solver[each.name] = Slot(kinds[each.name], getattr(plain.local, each.name), local=True)

    kinds = hints(Algorithm)
    of_algorithm = {}
    for each in fields(plain):
        of_algorithm[each.name] = Slot(kinds[each.name], getattr(plain, each.name))

    # in the order in which a step asks: which function, which slope, which way, how far
    first = {name: of_solver.pop(name) for name in ("terms", "oracle", "direction")}
    return {
        **first,
        **of_solver,
        **of_algorithm,
    }


SLOTS: Mapping[str, Slot] = _slots(zoo.fedavg())


@cache
def methods() -> dict[str, Callable[..., Algorithm]]:
    """Every named method; those of the published programs begin with `authors.`."""
    named = {name: getattr(zoo, name) for name in zoo.__all__}
    for name in authors.__all__:
        named[f"authors.{name}"] = getattr(authors, name)
    return named


@cache
def plugin_methods() -> dict[str, Callable[..., Algorithm]]:
    """The methods of other packages that are installed, each behind the name of its module.

    A package names them in its pyproject.toml, and `sign(step=1.0)` is then `my_package.sign(...)`:

        [project.entry-points."fedstep.methods"]
        sign = "my_package.methods:sign"
    """
    named = {}
    for point in entry_points(group=PLUGINS):
        module = point.module.split(".")[0]
        try:
            named[f"{module}.{point.name}"] = point.load()
        except Exception as error:
            # any error of the package's own code: it must not take all other methods with it
            warnings.warn(f"{module}.{point.name} is left out: {error}", stacklevel=2)
    return named


@cache
def parts() -> dict[str, type]:
    """Every part by name."""
    named = {}
    for home in HOMES:
        for module in _modules(home):
            for name, value in vars(module).items():
                if _is_part(value, module.__name__):
                    named[name] = value
    for part in list(named.values()):
        named |= _own_kinds(part)
    return named


def fillers(slot: str) -> dict[str, type]:
    """The parts that fill a slot, by name.

    >>> sorted(fillers("weighting"))
    ['BySamples', 'Equal']
    """
    base = SLOTS[slot].base
    return {name: part for name, part in parts().items() if issubclass(part, base)}


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
    if SLOTS[slot].local:
        return getattr(algorithm.local, slot)
    return getattr(algorithm, slot)


def shown(algorithm: Algorithm) -> list[str]:
    """The slots that tell an algorithm.

    Those of the client's solver, or `local` where another solver is in its place.
    """
    if type(algorithm.local) is LocalSolver:
        return [name for name in SLOTS if name != "local"]
    return [name for name, slot in SLOTS.items() if not slot.local]


def mix(algorithm: Algorithm, **given: Any) -> Algorithm:
    """The algorithm with some slots filled anew; `terms` are added to its own.

    >>> mix(zoo.fedsls(), server=zoo.fedadam().server).local == zoo.fedsls().local
    True
    """
    # the solver first: other slots given besides are filled in the new one
    solver = given.pop("local", algorithm.local)
    # added, not replaced: a proximal method stays one when it is given weight decay
    if "terms" in given:
        given["terms"] = (*solver.terms, *given["terms"])
    client = {name: part for name, part in given.items() if SLOTS[name].local}
    outer = {name: part for name, part in given.items() if not SLOTS[name].local}
    return replace(
        algorithm,
        local=replace(solver, **client),
        **outer,
    )


# What each slot answers; `local` is no question of its own but the solver that asks five of them.
QUESTIONS: Mapping[str, str] = {
    "terms": "which function does a client descend? phi = f_i + sum of terms",
    "oracle": "how is its slope learnt?",
    "direction": "which way?",
    "step": "how far?",
    "move": "how is the step applied, and where is the gradient looked up?",
    "correction": "what is remembered and exchanged besides the delta?",
    "codec": "how does the delta travel?",
    "guard": "how far may one client go?",
    "weighting": "how much does a client count?",
    "server": "what does the server do with the sum?",
    "readout": "which point is evaluated and shipped?",
}


def slots_markdown() -> str:
    """The slots with their questions and fillers, then the parts of parts: for docs/idea.md."""
    lines = ["| slot | question | fillers |", "|---|---|---|"]
    for slot, question in QUESTIONS.items():
        lines.append(f"| {slot} | {question} | {_names(fillers(slot))} |")

    lines += ["", "Parts have parts:", "", "| kind | what it is | fillers |", "|---|---|---|"]
    for base, members in _parts_of_parts().items():
        summary = inspect.cleandoc(base.__doc__ or "").splitlines()[0].rstrip(".")
        lines.append(f"| {base.__name__} | {summary} | {_names(members)} |")
    return "\n".join(lines) + "\n"


def _parts_of_parts() -> dict[type, dict[str, type]]:
    """Parts that fill no slot of an algorithm, by their base class."""
    slots = tuple(slot.base for slot in SLOTS.values())
    kinds: dict[type, dict[str, type]] = {}
    for name, part in sorted(parts().items()):
        if not issubclass(part, slots):
            # the oldest ancestor; a kind of which there is one has none but itself
            base = [kind for kind in part.__mro__ if kind not in (ABC, object)][-1]
            kinds.setdefault(base, {})[name] = part
    return dict(sorted(kinds.items(), key=lambda item: item[0].__name__))


def _names(members: Mapping[str, type]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(members))


@cache
def _language() -> Language:
    constructors = {**plugin_methods(), **methods()}
    makers = {name: _with_slots(maker) for name, maker in constructors.items()}
    return Language("method", makers, parts(), "fedsls(c=0.1)", "Restart()")


def _with_slots(method: Callable[..., Algorithm]) -> Callable[..., Algorithm]:
    """The constructor with a keyword for every slot.

    A keyword that it has itself, such as `step`, stays its own for values of its own kind.
    """
    settings = inspect.signature(method).parameters
    kinds = hints(method)

    def is_setting(name: str, value: object) -> bool:
        if name not in SLOTS:
            return True
        return name in settings and accepts(kinds.get(name), value)

    def make(**given: Any) -> Algorithm:
        arguments = {name: value for name, value in given.items() if is_setting(name, value)}
        slots = {name: value for name, value in given.items() if name not in arguments}
        return mix(method(**arguments), **slots)

    parameters = list(settings.values())
    annotations = dict(kinds)
    for name, slot in SLOTS.items():
        if name in settings:
            annotations[name] = slot.kind | kinds[name]
        else:
            annotations[name] = slot.kind
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=slot.plain)
            )
    # what the language reads to check a text: the function itself takes any keyword
    make.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    make.__annotations__ = annotations
    return make


def _modules(home: ModuleType) -> list[ModuleType]:
    return [import_module(f"{home.__name__}.{each.name}") for each in iter_modules(home.__path__)]


def _is_part(value: object, module: str) -> bool:
    """Whether it is a public dataclass of the module that derives from a slot's base class."""
    if not inspect.isclass(value) or not is_dataclass(value):
        return False
    public = value.__module__ == module and not value.__name__.startswith("_")
    return public and issubclass(value, ABC)


def _own_kinds(part: type) -> dict[str, type]:
    """What the fields of a part take and nothing else is: `Pace` of `CommonStep`."""
    homes = tuple(f"{home.__name__}." for home in HOMES)
    found = {}
    for hint in hints(part).values():
        for kind in (hint, *get_args(hint)):
            if isinstance(kind, type) and is_dataclass(kind) and kind.__module__.startswith(homes):
                found[kind.__name__] = kind
    return found
