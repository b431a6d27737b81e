"""A parser that answers a slip with one line and the word that was probably meant."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NoReturn

from fedstep.core.errors import unknown
from fedstep.core.printable import printable


class SuggestingParser(argparse.ArgumentParser):
    """argparse with other words for its errors: it would print the usage and no suggestion."""

    def parse_known_args(  # type: ignore[override]  # argparse overloads it by the namespace
        self,
        args: Sequence[str] | None = None,
        namespace: Any = None,
    ) -> tuple[Any, list[str]]:
        """The parsed arguments; nothing is ever left over."""
        if args is None:
            args = sys.argv[1:]
        given = list(args)
        # Before argparse looks: it would complain of what is missing first, which an option that
        # was misspelt may have been.
        self._refuse_unknown_options(given)
        parsed, left = super().parse_known_args(given, namespace)
        if left:
            self.error(f"unexpected {left[0]!r}")
        return parsed, []

    def error(self, message: str) -> NoReturn:
        """One line and exit code 2."""
        line = f"{self.prog}: {message} ({self.prog} --help tells more)"
        print(printable(line), file=sys.stderr)
        sys.exit(2)

    def _refuse_unknown_options(self, given: Sequence[str]) -> None:
        known = self._option_string_actions  # argparse has no public list of them
        own = takewhile(lambda word: word != "--", given)
        if self._commands():
            # what follows a command is the command's
            own = takewhile(lambda word: word.startswith("-"), own)
        for word in own:
            option = word.split("=", 1)[0]
            # argparse lets options be shortened
            shortened = any(name.startswith(option) for name in known)
            if option.startswith("--") and not shortened:
                options = [name for name in known if name.startswith("--")]
                self.error(unknown("option", option, options))

    def _commands(self) -> bool:
        return self._subparsers is not None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Called by argparse for every value of an argument that has choices."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            self.error(unknown("command", str(value), choices))
        name = "/".join(action.option_strings) or str(action.metavar or action.dest)
        self.error(unknown(f"value of {name}", str(value), choices))
