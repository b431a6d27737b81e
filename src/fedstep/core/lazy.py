"""Public names of a package that are loaded when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

GetName: TypeAlias = Callable[[str], Any]
ListNames: TypeAlias = Callable[[], list[str]]


def lazy_names(
    package: str,
    homes: Mapping[str, str],
) -> tuple[GetName, ListNames]:
    """A package's `__getattr__` and `__dir__`; `homes` says in which module of it a name lives.

    Importing the package must stay light: the command line's help, and whoever needs one small part
    of it, do not wait a second for torch.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        module = import_module(f"{package}.{home}")
        return getattr(module, name)

    def names() -> list[str]:
        return sorted(homes)

    return get, names
