"""Text that names a thing and its settings, `fedsls(c=0.1)`.

Calls of known makers and literals; nothing else is run.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from math import inf
from typing import Any, TypeAlias

from fedstep.core.annotations import accepts, bracketed, hints, kind
from fedstep.core.errors import InputError, unknown

Makers: TypeAlias = Mapping[str, Callable[..., Any]]

# A text that a user typed must end in one clear line, however deep or broken it is.
UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Language:
    """What may be written: a call of a maker.

    Its arguments are numbers, strings, calls of parts, or tuples and lists of these. `kind` and
    `example` (a call) and `part` (an example of a part) are for the messages.
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
        except UNREADABLE:
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

    def _call(
        self,
        tree: ast.expr,
        text: str,
    ) -> tuple[str, dict[str, Any]]:
        """A name or a call with keyword arguments."""
        if not isinstance(tree, ast.Call):
            return ast.unparse(tree), {}
        if tree.args:
            raise InputError(f"{text!r}: name every argument, as in {self.example}")
        arguments = {}
        for keyword in tree.keywords:
            arguments[str(keyword.arg)] = self._value(keyword.value, text)
        return ast.unparse(tree.func), arguments

    def _value(self, tree: ast.expr, text: str) -> Any:
        if isinstance(tree, ast.Call):
            return self._part(tree, text)
        if isinstance(tree, ast.Tuple):
            return tuple(self._value(item, text) for item in tree.elts)
        if isinstance(tree, ast.List):
            return [self._value(item, text) for item in tree.elts]
        if isinstance(tree, ast.Name) and tree.id == "inf":
            return inf
        try:
            return ast.literal_eval(tree)
        except UNREADABLE:
            raise InputError(
                f"{text!r}: {ast.unparse(tree)} is not a number or a part such as {self.part}"
            ) from None

    def _part(self, tree: ast.Call, text: str) -> Any:
        name, arguments = self._call(tree, text)
        if name not in self.parts:
            raise InputError(unknown("part", name, list(self.parts)))
        return make(self.parts[name], name, arguments, self.parts)


def make(
    maker: Callable[..., Any],
    name: str,
    arguments: Mapping[str, Any],
    parts: Makers,
) -> Any:
    """Call a maker; an argument it does not have, or one that cannot be used, is one line."""
    known = inspect.signature(maker).parameters
    kinds = hints(maker)
    given = {}
    for argument, value in arguments.items():
        given[argument] = bracketed(kinds.get(argument), value)

    for argument, value in given.items():
        if argument not in known:
            raise InputError(unknown(f"argument of {name}", argument, list(known)))
        # without this the mistake would be noticed only when the part is used
        if argument in kinds and not accepts(kinds[argument], value):
            remedy = _remedy(kinds[argument], known[argument].default, parts)
            raise InputError(f"{name}({argument}={value!r}): give {remedy}")
    for argument, parameter in known.items():
        if parameter.default is parameter.empty and argument not in given:
            remedy = _remedy(kinds.get(argument), None, parts)
            raise InputError(f"{name}(): {argument} is missing; give {remedy}")
    try:
        return maker(**given)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from None


def _remedy(
    hint: Any,
    default: object,
    parts: Makers,
) -> str:
    """What to give instead: the kind, and the parts that are of it."""
    if hint is None:
        return "it"
    fitting = [name for name, part in parts.items() if _fits(hint, part)]
    if not fitting:
        return kind(hint)
    example = fitting[0]
    if is_dataclass(default):
        example = type(default).__name__
    remedy = f"a part such as {example}() ({', '.join(fitting)})"
    if accepts(hint, 1.0):
        return f"a number, or {remedy}"
    return remedy


def _fits(hint: Any, part: Callable[..., Any]) -> bool:
    if not inspect.isclass(part):
        return False
    # an instance for looking at its methods only; settings are not needed for that
    blank = object.__new__(part)
    return accepts(hint, bracketed(hint, blank))
