"""Which columns a model takes, and by what name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedstep.core.errors import InputError
from fedstep.data.lazy import is_text, target_name


@dataclass(frozen=True)
class Columns:
    """The columns in the order of a batch's fields, the target last."""

    names: tuple[str, ...]
    by_name: bool  # the model is called with keywords
    left_out: tuple[str, ...] = ()

    @property
    def keywords(self) -> tuple[str, ...] | None:
        """The names a model is called by; None where it is called by position."""
        if self.by_name:
            return self.names
        return None


def choose_columns(
    batch: Mapping[str, Any],
    accepted: Sequence[str] | None,
    what: str,
) -> Columns:
    """The columns that the model's `forward` has parameters for, or else all that are numbers.

    accepted: the names of those parameters; None: not known.
    """
    names = list(batch.keys())
    target = target_name(names, what)
    inputs = [name for name in names if name != target]
    fitting = [name for name in inputs if accepted is not None and name in accepted]
    # one name that fits decides: a model is not called by name and by place at once
    by_name = bool(fitting)
    if not by_name:
        fitting = [name for name in inputs if not is_text(batch[name])]
    if not fitting:
        raise InputError(f"{what}: no column of numbers besides {target!r}: encode the text first")
    for name in fitting:
        if is_text(batch[name]):
            raise InputError(f"{what}: column {name!r} is text: encode (tokenize) it first")
    if not by_name and accepted is not None:
        _check_number(fitting, accepted, what)
    # told to the caller: a column that is dropped in silence is a bug nobody sees
    left_out = [name for name in inputs if name not in fitting]
    return Columns(
        (*fitting, target),
        by_name,
        tuple(left_out),
    )


def _check_number(
    fitting: Sequence[str],
    accepted: Sequence[str],
    what: str,
) -> None:
    # one column more than parameters would be dropped, or taken for another
    if len(fitting) > max(1, len(accepted)):
        raise InputError(
            f"{what}: columns {', '.join(fitting)} do not fit forward({', '.join(accepted)}): "
            "name the columns after its parameters, or leave some out"
        )
