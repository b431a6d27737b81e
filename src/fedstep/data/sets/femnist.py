"""Handwritten characters by writer, as LEAF has them: white is 1."""

from __future__ import annotations

from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits

from fedstep.data.sets.record import FromFiles, Samples


def _read(
    folder: Path,
    split: str,
) -> Samples:
    from fedstep.data.leaf import femnist

    return Samples.of_users(femnist(folder / split))


def _fetch(train: bool) -> Samples:
    from fedstep.data.hub import hub_writers

    return Samples.of_users(hub_writers(train))


FEMNIST = FromFiles(
    name="femnist",
    what="handwritten characters by writer (LEAF)",
    # in the order of LEAF's numbers
    labels=digits + ascii_uppercase + ascii_lowercase,
    folders=("femnist",),
    needs=(("train/*.json",), ("test/*.json",)),
    read_split=_read,
    hub="flwrlabs/femnist",
    fetch=_fetch,
)
