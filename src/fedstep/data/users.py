"""Samples of users who have names: writers, roles, partitions of somebody else's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.data.federation import Federation
from fedstep.data.parts import Parts


@dataclass(frozen=True)
class Users:
    """Samples of named users: those of user i are rows `parts[i]` of inputs and targets."""

    names: tuple[str, ...]
    inputs: Tensor
    targets: Tensor
    parts: Parts

    @property
    def federation(self) -> Federation:
        """The users as clients, in order."""
        return Federation((self.inputs, self.targets), self.parts)

    @property
    def ids(self) -> Tensor:
        """The number of every sample's user."""
        ids = torch.empty(len(self.targets), dtype=torch.int64)
        for number, part in enumerate(self.parts):
            ids[part] = number
        return ids

    def only(self, names: Sequence[str]) -> Users:
        """These users in this order: `test.only(train.names)` brings two splits in line."""
        # torch.cat of nothing would be an error that names nobody
        if not names:
            raise InputError("name a user")
        # a dict: thousands of users are looked up, each once
        place = {name: number for number, name in enumerate(self.names)}
        parts = []
        for name in names:
            if name not in place:
                raise InputError(f"there is no user {name!r} among the {len(place)} here")
            parts.append(self.parts[place[name]])
        rows = torch.cat(parts)
        return Users(
            names=tuple(names),
            # copied: the samples of the others can then be freed
            inputs=self.inputs[rows],
            targets=self.targets[rows],
            parts=Parts.consecutive([len(part) for part in parts]),
        )
