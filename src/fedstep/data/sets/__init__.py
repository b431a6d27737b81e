"""The data sets that a study can name: one file each, one record in it.

A file that is put here is found by itself: `fedstep data list`, `data check`, `data import`,
studies and `fedstep.data.load` know it.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from fedstep.core.errors import InputError, unknown
from fedstep.data.sets.record import DataSet

__all__ = ["DataSet", "data_set", "data_sets"]


@cache
def data_sets() -> dict[str, DataSet]:
    """All records by name: those that need files first."""
    found = {}
    # by the folder: a list of names would be a second place to edit
    for module in iter_modules(__path__):
        contents = vars(import_module(f"{__name__}.{module.name}"))
        for value in contents.values():
            # a record that another file has imported is the same record
            if isinstance(value, DataSet):
                found[value.name] = value
    records = sorted(found.values(), key=lambda record: (not record.folders, record.name))
    return {record.name: record for record in records}


def data_set(name: str) -> DataSet:
    """The record of this name."""
    records = data_sets()
    if name not in records:
        raise InputError(
            unknown(
                "task",
                name,
                list(records),
            )
        )
    return records[name]
