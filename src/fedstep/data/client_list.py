"""Whose samples are whose: the clients of a list or a dict, and the sets that are scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from fedstep.core.errors import InputError
from fedstep.data.brought import Brought, can_be_read
from fedstep.data.federation import Federation
from fedstep.data.lazy import Collate

SPLITS = {"train", "training", "validation", "valid", "val", "test"}


def client_list(clients: Any) -> list[Brought]:
    """The clients of a list, a generator or a dict."""
    if isinstance(clients, Mapping):
        return _of_dict(clients)
    if hasattr(clients, "columns") or hasattr(clients, "column_names"):
        raise InputError(
            f"clients is one table ({type(clients).__name__}): say which column names the client, "
            "fedstep.data.clients_from(table, client=..., target=...)"
        )
    # what can be gone through once only is gone through here
    if isinstance(clients, Iterator):
        clients = list(clients)
    _refuse_one_set(clients)
    if not hasattr(clients, "__len__"):
        raise InputError(
            f"clients is a {type(clients).__name__}: give a list with the samples of each client"
        )
    if len(clients) == 0:
        raise InputError("there are no clients: give at least one")
    return [Brought.of(data, f"client {i}") for i, data in enumerate(clients)]


def _refuse_one_set(clients: Any) -> None:
    """The samples of all clients in one: whose they are has to be said."""
    one_set = isinstance(clients, DataLoader | Dataset | Tensor | np.ndarray | str)
    if isinstance(clients, Sequence) and len(clients) == 2:
        one_set = one_set or all(isinstance(part, Tensor | np.ndarray) for part in clients)
    if one_set:
        raise InputError(
            f"clients is a {type(clients).__name__}, one set of samples: give a list with the "
            "samples of each client (torch.utils.data.random_split cuts a Dataset)"
        )


def _of_dict(clients: Mapping[Any, Any]) -> list[Brought]:
    names = [str(name) for name in clients]
    # the commonest mistake with `datasets`: its splits taken for clients
    if set(names) <= SPLITS:
        raise InputError(
            f"clients is a dict of splits ({', '.join(names)}): give "
            "fedstep.data.clients_from(splits['train'], client=..., target=...)"
        )
    values = list(clients.values())
    if values and not can_be_read(values[0]) and not isinstance(values[0], tuple | Mapping):
        raise InputError("clients is a dict: its values must be the samples of one client each")
    return [Brought.of(data, f"client {name}") for name, data in clients.items()]


@dataclass(frozen=True)
class ScoredSet:
    """A set that was brought for scoring: one, or one of every client."""

    name: str
    sets: tuple[Brought, ...]
    dealt: bool  # every client has its own

    @staticmethod
    def of(
        name: str,
        given: Any,
        collate: Collate | None,
    ) -> ScoredSet:
        # a federation is dealt already: its clients stay apart
        if isinstance(given, Federation):
            sets = []
            for i, part in enumerate(given.parts):
                fields = tuple(field[part] for field in given.fields)
                sets.append(Brought(f"{name}, client {i}", arrays=fields))
            return ScoredSet(name, tuple(sets), True)
        if _is_dict_of_sets(given):
            brought = [Brought.of(one, f"{name}, client {key}") for key, one in given.items()]
            return ScoredSet(name, tuple(brought), True)
        if _is_one_a_client(given, collate):
            brought = [Brought.of(one, f"{name}, client {i}") for i, one in enumerate(given)]
            return ScoredSet(name, tuple(brought), True)
        return ScoredSet(
            name,
            (Brought.of(given, name),),
            False,
        )


def _is_dict_of_sets(given: Any) -> bool:
    """Whether a dict has a set for every client, and not a column for every name."""
    if not isinstance(given, Mapping) or not given:
        return False
    return all(_is_set(one) for one in given.values())


def _is_set(one: Any) -> bool:
    return isinstance(one, tuple | Mapping | Dataset | DataLoader) or hasattr(one, "column_names")


def _is_one_a_client(given: Any, collate: Collate | None) -> bool:
    if not isinstance(given, list) or not given:
        return False
    first = given[0]
    if isinstance(first, Dataset | DataLoader) or hasattr(first, "column_names"):
        return True
    # with collate a list of pairs has one pair a sample
    if collate is not None or not isinstance(first, tuple | list) or len(first) < 2:
        return False
    inputs = first[0]
    targets = first[-1]
    # a sample may be such a pair too, but its target is one number
    if not hasattr(targets, "__len__") or not hasattr(inputs, "__len__"):
        return False
    if isinstance(targets, Tensor) and targets.dim() == 0:
        return False
    return len(inputs) == len(targets)
