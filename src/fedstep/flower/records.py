"""Parcels as Flower's records, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedstep.remote.parcel import Parcel, WireTensor

# How the bytes of an array are to be read. Flower's own way (the format of numpy) lets a sender
# claim a shape that takes all memory before a byte of it is there, and knows no bfloat16.
RAW = "fedstep.raw"
VALUES = "values."
TENSORS = "tensors."


def records_of(parcels: Mapping[str, Parcel]) -> RecordDict:
    """Named parcels as the content of a message: two records each."""
    content = RecordDict()
    for name, parcel in parcels.items():
        content[VALUES + name] = ConfigRecord(dict(parcel.values))
        content[TENSORS + name] = array_record(parcel.tensors)
    return content


def parcels_of(content: RecordDict) -> dict[str, Parcel]:
    """The parcels of a message; what is not of this form is left out, and so is not answered."""
    parcels = {}
    for key, values in content.config_records.items():
        if not key.startswith(VALUES):
            continue
        name = key.removeprefix(VALUES)
        arrays = content.array_records.get(TENSORS + name)
        parcels[name] = Parcel(dict(values), _tensors(arrays))
    return parcels


def array_record(tensors: Mapping[str, WireTensor]) -> ArrayRecord:
    """Tensors as Flower sends them: equal content is sent and stored once, for all nodes."""
    arrays = {}
    for name, wire in tensors.items():
        arrays[name] = Array(wire.dtype, wire.shape, RAW, wire.data)
    return ArrayRecord(arrays)


def _tensors(record: Any) -> dict[str, WireTensor]:
    if record is None:
        return {}
    tensors = {}
    for name, array in record.items():
        dtype = array.dtype
        if array.stype != RAW:
            # never read: its type then is none that anybody expects
            dtype = f"{array.stype} of {array.dtype}"
        tensors[name] = WireTensor(dtype, tuple(array.shape), array.data)
    return tensors
