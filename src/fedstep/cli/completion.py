"""`fedstep completion`: words that a shell completes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedstep.core.errors import InputError

SHELLS = ("bash", "zsh")
WHERE = {
    "bash": "fedstep completion bash > ~/.local/share/bash-completion/completions/fedstep",
    "zsh": "fedstep completion zsh > a directory of $fpath, as _fedstep",
}


def register(commands: Any) -> None:
    """Add the command to the parser."""
    places = "\n".join(f"  {line}" for line in WHERE.values())
    command = commands.add_parser(
        "completion",
        help="a script with which a shell completes commands, options and names",
        description=f"Print the script; it is kept where the shell looks for it:\n\n{places}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("shell", choices=SHELLS, help="the shell")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Print the script."""
    print(script(options.shell))


def script(shell: str) -> str:
    """All commands and options, and the names of methods, studies and tasks, as shell code.

    It is made once and knows all words by itself: completing starts no Python.
    """
    try:
        import shtab
    except ModuleNotFoundError:
        raise InputError(
            "completion needs shtab: pip install 'fedstep[completion]', or pip install shtab"
        ) from None
    # here and not above: the package imports this module
    from fedstep.cli import parser

    top = parser()
    names = _names()
    for action in _arguments(top):
        if action.metavar in names:
            # only for the script: a method may have settings behind its name, a study is a file
            action.choices = names[action.metavar]
        elif action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(top, shell))


def _names() -> dict[Any, list[str]]:
    """What can be written for an argument, by what the help calls it."""
    from fedstep.cli.catalog import catalog
    from fedstep.cli.study import SHIPPED
    from fedstep.data.sets import data_sets

    return {
        "NAME": [entry.name for entry in catalog()],
        "STUDY": sorted(path.stem for path in SHIPPED.glob("*.toml")),
        "TASK": list(data_sets()),
    }


def _arguments(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """The arguments of a command and of the commands below it."""
    for action in parser._actions:  # argparse has no public list of them
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _arguments(command)
        else:
            yield action
