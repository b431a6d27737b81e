"""Text that names a thing and its settings, `fedsls(c=0.1)`: calls of known makers and literals, nothing else is run."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from math import inf
from typing import Any, TypeAlias

from fedstep.core.errors import InputError, unknown
from fedstep.core.fits import accepts, bracketed, hints, kind

Makers: TypeAlias = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Language:
    """What may be written: a call of a maker, whose arguments are numbers, strings, calls of parts, or tuples and lists of these.

    `kind` and `example` (a call) and `part` (an example of a part) are for the messages.
    """

    kind: str
    makers: Makers
    parts: Makers
    example: str
    part: str

    def build(self, text: str) -> Any:
        """The thing that a text names; a bare name is a call without arguments."""
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise InputError(
                f"{text!r} is not a {self.kind}: write a name or a call such as {self.example}"
            ) from None
        name, arguments = self._call(tree, text)
        return make(self.maker(name), name, arguments, self.parts)

    def maker(self, name: str) -> Callable[..., Any]:
        """The maker of this name."""
        if name not in self.makers:
            raise InputError(unknown(self.kind, name, list(self.makers)))
        return self.makers[name]

    def _call(self, tree: ast.expr, text: str) -> tuple[str, dict[str, Any]]:
        """A name or a call with keyword arguments."""
        if not isinstance(tree, ast.Call):
            return ast.unparse(tree), {}
        if tree.args:
            raise InputError(f"{text!r}: name every argument, as in {self.example}")
        return ast.unparse(tree.func), {
            str(k.arg): self._value(k.value, text) for k in tree.keywords
        }

    def _value(self, tree: ast.expr, text: str) -> Any:
        if isinstance(tree, ast.Call):
            name, arguments = self._call(tree, text)
            if name not in self.parts:
                raise InputError(unknown("part", name, list(self.parts)))
            return make(self.parts[name], name, arguments, self.parts)
        if isinstance(tree, ast.Tuple | ast.List):
            items = [self._value(item, text) for item in tree.elts]
            return tuple(items) if isinstance(tree, ast.Tuple) else items
        if isinstance(tree, ast.Name) and tree.id == "inf":
            return inf
        try:
            return ast.literal_eval(tree)
        except (ValueError, TypeError, RecursionError, MemoryError):
            raise InputError(
                f"{text!r}: {ast.unparse(tree)} is not a number or a part such as {self.part}"
            ) from None


def make(maker: Callable[..., Any], name: str, arguments: Mapping[str, Any], parts: Makers) -> Any:
    """Call a maker; an argument it does not have, or one that cannot be used, is one line."""
    known, kinds = inspect.signature(maker).parameters, hints(maker)
    arguments = {n: bracketed(kinds.get(n), v) for n, v in arguments.items()}
    for argument, value in arguments.items():
        if argument not in known:
            raise InputError(unknown(f"argument of {name}", argument, list(known)))
        if argument in kinds and not accepts(
            kinds[argument], value
        ):  # would be found out only when it is used
            raise InputError(
                f"{name}({argument}={value!r}): give {_remedy(kinds[argument], known[argument].default, parts)}"
            )
    for argument, wanted in known.items():
        if wanted.default is wanted.empty and argument not in arguments:
            raise InputError(
                f"{name}(): {argument} is missing; give {_remedy(kinds.get(argument), None, parts)}"
            )
    try:
        return maker(**arguments)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from None


def _remedy(hint: Any, default: object, parts: Makers) -> str:
    """What to give instead: the kind, and the parts that are of it."""
    fitting = [
        n
        for n, p in parts.items()
        if inspect.isclass(p) and accepts(hint, bracketed(hint, _blank(p)))
    ]
    if not fitting or hint is None:
        return "it" if hint is None else kind(hint)
    example = type(default).__name__ if is_dataclass(default) else fitting[0]
    number = "a number, or " if accepts(hint, 1.0) else ""
    return f"{number}a part such as {example}() ({', '.join(fitting)})"


def _blank(part: type) -> object:
    """An instance for looking at its methods only; settings are not needed for that."""
    return object.__new__(part)
