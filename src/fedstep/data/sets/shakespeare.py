"""The next character of a play, by speaking role."""

from __future__ import annotations

from pathlib import Path

from fedstep.data.alphabet import symbol_names
from fedstep.data.sets.record import FromFiles, Samples


def _read(
    folder: Path,
    split: str,
) -> Samples:
    from fedstep.data.leaf import shakespeare

    return Samples.of_users(shakespeare(folder / split))


def _fetch(train: bool) -> Samples:
    from fedstep.data.hub import hub_roles

    return Samples.of_users(hub_roles(train))


SHAKESPEARE = FromFiles(
    name="shakespeare",
    what="the next character, by speaking role (LEAF)",
    labels=symbol_names(),
    # `shakespeare/roles.json`, the plays themselves, may lie beside it
    folders=("shakespeare/leaf",),
    needs=(("train/*.json",), ("test/*.json",)),
    read_split=_read,
    hub="flwrlabs/shakespeare",
    fetch=_fetch,
)
