"""Text that names a thing and its settings, `fedsls(c=0.1)`.

Calls of known makers and literals; nothing else is run.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from math import inf
from typing import Any, TypeAlias

from fedstep.core.annotations import accepts, bracketed, hints, kind
from fedstep.core.errors import LONGEST, InputError, brief, unknown

Maker: TypeAlias = Callable[..., Any]
Makers: TypeAlias = Mapping[str, Maker]

LONGEST_TEXT = 10_000  # characters
DEEPEST = 50  # levels of brackets and signs: a mixture has about five
# A text that a user typed must end in one clear line, however deep or broken it is.
UNREADABLE = (SyntaxError, ValueError, TypeError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Language:
    """What may be written: a call of a maker.

    Its arguments are numbers, strings, calls of parts, or tuples and lists of these. `kind` and
    `example` (a call) and `part` (an example of a part) are for the messages.
    """

    kind: str  # what a text names, such as "method"
    makers: Makers  # what may stand outermost
    parts: Makers  # what may stand inside
    example: str
    part: str

    def build(self, text: str) -> Any:
        """The thing that a text names; a bare name is a call without arguments."""
        tree = _parsed(text)
        if tree is None:
            raise InputError(
                f"{brief(text)} is not a {self.kind}: write a name or a call such as {self.example}"
            )
        name, arguments = self._call(tree, text)
        maker = self.maker(name)
        return make(
            maker,
            name,
            arguments,
            self.parts,
        )

    def maker(self, name: str) -> Maker:
        """The maker of this name."""
        if name not in self.makers:
            known = list(self.makers)
            raise InputError(unknown(self.kind, name, known))
        return self.makers[name]

    def _call(
        self,
        tree: ast.expr,
        text: str,
    ) -> tuple[str, dict[str, Any]]:
        """A name or a call with keyword arguments."""
        if not isinstance(tree, ast.Call):
            return ast.unparse(tree), {}
        # a number without a name would change its meaning when a setting is added
        if tree.args:
            raise InputError(f"{brief(text)}: name every argument, as in {self.example}")
        arguments = {}
        for keyword in tree.keywords:
            name = str(keyword.arg)
            arguments[name] = self._value(keyword.value, text)
        called = ast.unparse(tree.func)
        return called, arguments

    def _value(self, tree: ast.expr, text: str) -> Any:
        if isinstance(tree, ast.Call):
            return self._part(tree, text)
        if isinstance(tree, ast.Tuple | ast.List):
            items = [self._value(item, text) for item in tree.elts]
            if isinstance(tree, ast.Tuple):
                return tuple(items)
            return items
        # infinity has no literal, and is a setting (no largest step)
        if isinstance(tree, ast.Name) and tree.id == "inf":
            return inf
        try:
            return ast.literal_eval(tree)
        except UNREADABLE:
            written = ast.unparse(tree)[:LONGEST]
            raise InputError(
                f"{brief(text)}: {written} is not a number or a part such as {self.part}"
            ) from None

    def _part(self, tree: ast.Call, text: str) -> Any:
        name, arguments = self._call(tree, text)
        if name not in self.parts:
            known = list(self.parts)
            raise InputError(unknown("part", name, known))
        return make(
            self.parts[name],
            name,
            arguments,
            self.parts,
        )


def _parsed(text: str) -> ast.expr | None:
    """The text as Python reads it; None where it is no expression, or one that nobody writes."""
    stripped = text.strip()
    if len(stripped) > LONGEST_TEXT:
        return None
    try:
        with warnings.catch_warnings():
            # Python warns of numbers that run into words: the message that follows says more
            warnings.simplefilter("ignore")
            tree = ast.parse(stripped, mode="eval").body
    except UNREADABLE:
        return None
    if _depth(tree) > DEEPEST:
        return None
    return tree


def _depth(tree: ast.AST) -> int:
    """How many levels lie inside one another; counted without recursion, which they would break."""
    depth = 0
    level = [tree]
    while level:
        depth += 1
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def make(
    maker: Maker,
    name: str,
    arguments: Mapping[str, Any],
    parts: Makers,
) -> Any:
    """Call a maker; an argument it does not have, or one that cannot be used, is one line."""
    known = inspect.signature(maker).parameters
    kinds = hints(maker)
    given = {}
    for argument, value in arguments.items():
        hint = kinds.get(argument)
        given[argument] = bracketed(hint, value)

    for argument, value in given.items():
        if argument not in known:
            message = unknown(f"argument of {name}", argument, list(known))
            raise InputError(message)
        if argument not in kinds:
            continue
        hint = kinds[argument]
        # without this the mistake would be noticed only when the part is used
        if not accepts(hint, value):
            default = known[argument].default
            remedy = _remedy(hint, default, parts)
            raise InputError(f"{name}({argument}={brief(value)}): give {remedy}")

    for argument, parameter in known.items():
        is_required = parameter.default is parameter.empty
        if is_required and argument not in given:
            hint = kinds.get(argument)
            remedy = _remedy(hint, None, parts)
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
    fitting = []
    for name, part in parts.items():
        if _fits(hint, part):
            fitting.append(name)
    if not fitting:
        return kind(hint)
    example = fitting[0]
    if is_dataclass(default):
        example = type(default).__name__
    choices = ", ".join(fitting)
    remedy = f"a part such as {example}() ({choices})"
    if accepts(hint, 1.0):
        return f"a number, or {remedy}"
    return remedy


def _fits(hint: Any, part: Maker) -> bool:
    if not inspect.isclass(part):
        return False
    # an instance for looking at its methods only; settings are not needed for that
    blank = object.__new__(part)
    value = bracketed(hint, blank)
    return accepts(hint, value)
