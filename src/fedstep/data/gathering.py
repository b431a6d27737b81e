"""From what a caller brings to clients and samples that can be trained and scored on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.data.brought import (
    Brought,
    RandomSamples,
    Reading,
    has_its_own_generator,
    joined,
    lazily,
    pooled,
    read_into_memory,
    way_of_reading,
)
from fedstep.data.client_list import ScoredSet, client_list
from fedstep.data.columns import choose_columns
from fedstep.data.federation import Federation
from fedstep.data.lazy import Collate
from fedstep.data.parts import Parts

OWN_GENERATOR = (
    "they draw from a generator of their own, so the same seed does not give the same bits; "
    "draw from the global one of torch, numpy or random"
)


@dataclass(frozen=True)
class ScoredSamples:
    """Samples to score on, and whose they are where every client has its own."""

    fields: tuple[Tensor, ...]
    parts: Parts | None = None


@dataclass(frozen=True)
class Gathered:
    """Clients, and the sets that are scored, by name."""

    federation: Federation
    scored: Mapping[str, ScoredSamples]


def gather(
    clients: Any,
    scored: Mapping[str, Any],
    collate: Collate | None = None,
    accepted: Sequence[str] | None = None,
) -> Gathered:
    """Clients and scored sets, in memory or read a batch at a time.

    accepted: the parameters of the model's `forward`, which named columns are held against.
    """
    given = [
        ScoredSet.of(
            name,
            data,
            collate,
        )
        for name, data in scored.items()
        if data is not None
    ]
    if isinstance(clients, Federation):
        return _beside_a_federation(clients, given, collate)
    # clients first: what is scored is read in the same way as they are
    trained = client_list(clients)
    others = [brought for one in given for brought in one.sets]
    # one way of reading for all: a test set in other columns would be another task
    everything = [*trained, *others]
    _refuse_mixed_kinds(everything)
    reading = way_of_reading(everything, collate, accepted)
    # read once it would be frozen, and read again it would be another sample: said in a note
    if any(has_its_own_generator(brought) for brought in everything):
        reading = lazily(reading, OWN_GENERATOR)
    if not reading.lazy:
        try:
            return _in_memory(trained, given, reading)
        # two readings of a sample differ: what was read so far is thrown away
        except RandomSamples:
            reading = lazily(reading, "they are random (augmentation)")
    return _by_number(trained, given, everything, reading)


def cast_to(
    gathered: Gathered,
    dtype: torch.dtype,
) -> Gathered:
    """The same with all real numbers of one type; a note says what was cast."""
    federation = gathered.federation
    if federation.transform is not None:
        return gathered  # whatever makes the samples makes their type
    # whole numbers are left alone: they are classes or symbols
    kinds = {field.dtype for field in federation.fields if field.is_floating_point()} - {dtype}
    fields = _cast(federation.fields, dtype)
    scored = {}
    for name, one in gathered.scored.items():
        scored[name] = replace(one, fields=_cast(one.fields, dtype))
    notes = federation.notes
    if kinds:
        words = ", ".join(sorted(str(kind).removeprefix("torch.") for kind in kinds))
        notes = (*notes, f"{words} cast to {str(dtype).removeprefix('torch.')}, as the model is")
    return Gathered(replace(federation, fields=fields, notes=notes), scored)


def _in_memory(
    trained: Sequence[Brought],
    given: Sequence[ScoredSet],
    reading: Reading,
) -> Gathered:
    names = None
    if reading.columns is not None:
        names = reading.columns.keywords
    each = [read_into_memory(brought, reading) for brought in trained]
    federation = replace(joined(each, names), notes=reading.notes)
    scored = {}
    for one in given:
        fields = [read_into_memory(brought, reading) for brought in one.sets]
        whole = joined(fields, names)
        scored[one.name] = _scored(
            one,
            whole.fields,
            whole.parts,
        )
    return Gathered(federation, scored)


def _by_number(
    trained: Sequence[Brought],
    given: Sequence[ScoredSet],
    everything: Sequence[Brought],
    reading: Reading,
) -> Gathered:
    """The fields are the numbers of the samples in one pool; the transform reads them."""
    names = None
    if reading.columns is not None:
        names = reading.columns.keywords
    sizes = [len(brought.as_samples) for brought in everything]
    # one pool for clients and scored sets, so that one transform reads them all
    numbers = torch.split(torch.arange(sum(sizes)), sizes)
    clients = torch.cat(numbers[: len(trained)])
    federation = Federation(
        fields=(clients,),
        parts=Parts.consecutive(sizes[: len(trained)]),
        transform=pooled(everything, reading),
        names=names,
        notes=reading.notes,
    )
    scored = {}
    # the scored sets stand behind the clients in the pool
    first = len(trained)
    for one in given:
        own = numbers[first : first + len(one.sets)]
        first += len(one.sets)
        parts = Parts.consecutive([len(part) for part in own])
        scored[one.name] = _scored(
            one,
            (torch.cat(own),),
            parts,
        )
    return Gathered(federation, scored)


def _beside_a_federation(
    federation: Federation,
    given: Sequence[ScoredSet],
    collate: Collate | None,
) -> Gathered:
    if collate is not None:
        raise InputError("collate with a Federation: its samples are arrays already; leave it out")
    # nothing to decide: the clients are arrays, and what is scored becomes arrays beside them
    reading = Reading(
        columns=None,
        collate=None,
        lazy=False,
        notes=(),
    )
    scored = {}
    for one in given:
        each = []
        for brought in one.sets:
            # by the names of the clients' columns, in their order
            if brought.named is not None and federation.names is not None:
                columns = choose_columns(
                    brought.named,
                    federation.names,
                    brought.what,
                )
                each.append(read_into_memory(brought, replace(reading, columns=columns)))
            else:
                each.append(read_into_memory(brought, reading))
        whole = joined(each, federation.names)
        scored[one.name] = _scored(
            one,
            whole.fields,
            whole.parts,
        )
    return Gathered(federation, scored)


def _scored(
    one: ScoredSet,
    fields: tuple[Tensor, ...],
    parts: Parts,
) -> ScoredSamples:
    if one.dealt:
        return ScoredSamples(fields, parts)
    return ScoredSamples(fields)


def _refuse_mixed_kinds(everything: Sequence[Brought]) -> None:
    # a model is called in one way: half of the clients by name would be another call
    kinds = {brought.what: _kind(brought) for brought in everything}
    first = next(iter(kinds.values()))
    for what, kind in kinds.items():
        if kind != first:
            raise InputError(
                f"{what} has {kind}, {everything[0].what} has {first}: give all in one form"
            )


def _kind(brought: Brought) -> str:
    # arrays are never looked into: their rows are tuples whatever they hold
    if brought.arrays is not None:
        return "samples that are tuples"
    if brought.named is not None or isinstance(brought.first()[0], Mapping):
        return "samples that are dicts"
    return "samples that are tuples"


def _cast(
    fields: tuple[Tensor, ...],
    dtype: torch.dtype,
) -> tuple[Tensor, ...]:
    cast = []
    for field in fields:
        if field.is_floating_point():
            field = field.to(dtype)
        cast.append(field)
    return tuple(cast)
