"""A module run with other tensors in the place of its parameters and buffers.

What torch.func.functional_call does. That one looks for the places of the tensors in every pass,
which takes longer than the pass of a small model; here they are found once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn

# what a layer holds by name: a module's `_parameters` or `_buffers`
Holder = dict[str, Any]


class Held(NamedTuple):
    """A tensor of a layer, and where the layer holds it."""

    holder: Holder
    leaf: str
    tensor: Any


class Binding:
    """Where a module's layers hold each of its parameters and buffers."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        # by identity: tied layers hold the same parameter under other names
        names = {id(tensor): name for name, tensor in module.named_buffers()}
        for name, parameter in module.named_parameters():
            names[id(parameter)] = name
        self._places: dict[str, list[tuple[Holder, str]]] = {}
        for layer in module.modules():
            for holder in (layer._parameters, layer._buffers):
                for leaf, tensor in holder.items():
                    if tensor is not None:
                        places = self._places.setdefault(names[id(tensor)], [])
                        places.append((holder, leaf))

    def put_in(self, values: Mapping[str, Tensor]) -> list[Held]:
        """Let the layers hold these values; returns what they held."""
        before = []
        for name, value in values.items():
            for holder, leaf in self._places[name]:
                before.append(Held(holder, leaf, holder[leaf]))
                # not by setattr, which takes no view in the place of a parameter
                holder[leaf] = value
        return before

    def call(
        self,
        values: Mapping[str, Tensor],
        inputs: Sequence[Any],
        keywords: Mapping[str, Any],
    ) -> Any:
        """What the module returns with these values."""
        before = self.put_in(values)
        try:
            return self.module(*inputs, **keywords)
        finally:
            put_back(before)


def put_back(before: Sequence[Held]) -> None:
    """Let the layers hold again what they held."""
    for held in before:
        held.holder[held.leaf] = held.tensor
