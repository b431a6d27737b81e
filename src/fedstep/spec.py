"""Methods as text: `fedexpsls(c=0.1, reset=Restart())`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import cache
from math import inf
from typing import Any

from fedstep import authors, zoo
from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError, unknown
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
    try:
        tree = ast.parse(spec.strip(), mode="eval").body
    except SyntaxError:
        raise InputError(f"{spec!r} is not a method: write a name or a call such as fedsls(c=0.1)") from None
    name, arguments = _call(tree, spec)
    made = _make(method(name), name, arguments)
    if not isinstance(made, Algorithm):
        raise InputError(f"{spec!r} is not a method")
    return made


def method(name: str) -> Callable[..., Algorithm]:
    """The constructor of a named method."""
    if name not in methods():
        raise InputError(unknown("method", name, list(methods())))
    return methods()[name]


def _is_method(value: object, module: str) -> bool:
    return inspect.isfunction(value) and value.__module__ == module and not value.__name__.startswith("_")


def _call(tree: ast.expr, spec: str) -> tuple[str, dict[str, Any]]:
    """A name or a call with keyword arguments."""
    if not isinstance(tree, ast.Call):
        return ast.unparse(tree), {}
    if tree.args:
        raise InputError(f"{spec!r}: name every argument, as in fedsls(c=0.1)")
    return ast.unparse(tree.func), {str(k.arg): _value(k.value, spec) for k in tree.keywords}


def _value(tree: ast.expr, spec: str) -> Any:
    if isinstance(tree, ast.Call):
        name, arguments = _call(tree, spec)
        parts = {n: p for n, p in vars(resets).items() if inspect.isclass(p) and p.__module__ == resets.__name__}
        if name not in parts:
            raise InputError(unknown("part", name, list(parts)))
        return _make(parts[name], name, arguments)
    if isinstance(tree, ast.Name) and tree.id == "inf":
        return inf
    try:
        return ast.literal_eval(tree)
    except ValueError:
        raise InputError(f"{spec!r}: {ast.unparse(tree)} is not a number or a part such as Restart()") from None


def _make(maker: Callable[..., Any], name: str, arguments: dict[str, Any]) -> Any:
    known = list(inspect.signature(maker).parameters)
    for argument in arguments:
        if argument not in known:
            raise InputError(unknown(f"argument of {name}", argument, known))
    try:
        return maker(**arguments)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from None
