"""The command line: parse, call, print. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import fedstep
from fedstep.cli import (
    clients,
    completion,
    data,
    demo,
    leaderboard,
    partition,
    results,
    show,
    study,
    theory,
    toy,
    verify,
    watch,
)
from fedstep.cli.parser import SuggestingParser
from fedstep.core.errors import InputError

COMMANDS = (
    demo,
    toy,
    show,
    data,
    partition,
    study,
    theory,
    results,
    clients,
    verify,
    leaderboard,
    watch,
    completion,
)


def parser() -> argparse.ArgumentParser:
    """All commands with their options."""
    top = SuggestingParser(
        prog="fedstep",
        description=(
            "Federated learning that finds its step sizes: "
            "line search on the clients, extrapolation on the server."
        ),
    )
    top.add_argument("--version", action="version", version=f"fedstep {fedstep.__version__}")
    commands = top.add_subparsers(metavar="command", required=True)
    # every module adds its own: a new command is one name in the list above
    for module in COMMANDS:
        module.register(commands)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; bad input is one line and exit code 2."""
    # No handler of SIGINT is installed here. A shell starts a background job with SIGINT ignored,
    # and Python leaves it so: the Ctrl-C meant for the foreground must not end a study that was
    # sent to the background. Such a run is ended by SIGTERM and goes on from its checkpoint.
    options = parser().parse_args(argv)
    try:
        return int(options.run(options) or 0)
    except InputError as error:
        _complain(str(error))
        return 2
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:
        place = error.filename or "file"
        reason = error.strerror or error
        _complain(f"{place}: {reason}; give another path")
        return 2
    except KeyboardInterrupt:
        _complain(_interrupted(options))
        return 130


def _interrupted(options: argparse.Namespace) -> str:
    """What to say of a command that was stopped."""
    # those that write results as they go have a checkpoint to go on from
    if getattr(options, "resumes", False):
        return "interrupted; the same command goes on from here"
    return "interrupted"


def _complain(message: str) -> None:
    """One line on stderr; what it names may be anybody's text."""
    from fedstep.core.printable import printable

    print(f"fedstep: {printable(message)}", file=sys.stderr)
