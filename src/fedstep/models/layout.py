"""Where the trained parameters of a module lie in one flat vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedstep.core.errors import InputError
from fedstep.core.vec import Vec


@dataclass(frozen=True)
class Place:
    """One parameter: its name, and its shape and type in the module."""

    name: str
    shape: torch.Size
    dtype: torch.dtype

    @property
    def size(self) -> int:
        """Real numbers in the flat vector; a complex number is two of them."""
        if self.dtype.is_complex:
            return 2 * self.shape.numel()
        return self.shape.numel()

    def view(self, piece: Tensor) -> Tensor:
        """The parameter of a piece of the flat vector."""
        if self.dtype.is_complex:
            pairs = piece.view(*self.shape, 2)
            return torch.view_as_complex(pairs.to(self.dtype.to_real()))
        # the same tensor where the vector has the parameter's own type
        return piece.view(self.shape).to(self.dtype)


@dataclass(frozen=True)
class ParameterLayout:
    """The parameters in the order of `named_parameters`: checkpoints count on it.

    The vector has one type. Parameters of 16 bits lie there in 32 (a step of a search is often
    smaller than the rounding of bfloat16), complex ones as pairs of real numbers.
    """

    places: tuple[Place, ...]
    dtype: torch.dtype  # of the vector

    @staticmethod
    def of(module: nn.Module) -> ParameterLayout:
        """That of the parameters that require a gradient."""
        parameters = trained_parameters(module)
        places = []
        for name, parameter in parameters.items():
            places.append(Place(name, parameter.shape, parameter.dtype))
        return ParameterLayout(tuple(places), _vector_type(parameters))

    @property
    def sizes(self) -> list[int]:
        """Real numbers of every parameter."""
        return [place.size for place in self.places]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of every parameter; a complex one is a vector of real numbers."""
        shapes: list[tuple[int, ...]] = []
        for place in self.places:
            if place.dtype.is_complex:
                shapes.append((place.size,))
            else:
                shapes.append(tuple(place.shape))
        return tuple(shapes)

    @property
    def casts(self) -> bool:
        """Whether some parameter has another type in the module than in the vector."""
        return any(place.dtype != self.dtype for place in self.places)

    @property
    def input_dtype(self) -> torch.dtype:
        """The type of real numbers that the module works in."""
        first = self.places[0].dtype
        if first.is_complex:
            return first.to_real()
        return first

    def cast_inputs(self, fields: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """A batch as a module of 16 bits or of complex numbers takes it; targets stay."""
        if not self.casts:
            return fields
        *inputs, targets = fields
        cast_inputs = []
        for field in inputs:
            if field.is_floating_point():
                field = field.to(self.input_dtype)
            cast_inputs.append(field)
        return *cast_inputs, targets

    def flat(self, parameters: Mapping[str, Tensor]) -> Vec:
        """The parameters as one vector."""
        pieces = []
        for place in self.places:
            values = parameters[place.name].detach()
            if place.dtype.is_complex:
                # a conjugate is lazy in torch: its numbers are written out first
                values = torch.view_as_real(values.resolve_conj())
            pieces.append(values.reshape(-1).to(self.dtype))
        return torch.cat(pieces)

    def parameters(self, x: Vec) -> dict[str, Tensor]:
        """Named parameters of a flat vector, views where the types agree."""
        pieces = torch.split(x, self.sizes)
        views = {}
        for place, piece in zip(self.places, pieces, strict=True):
            views[place.name] = place.view(piece)
        return views


def trained_parameters(module: nn.Module) -> dict[str, Tensor]:
    """The parameters that require a gradient."""
    parameters = {}
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            parameters[name] = parameter.detach()
    if not parameters:
        raise InputError(
            f"{type(module).__name__} has no parameters that require a gradient: nothing to train"
        )
    devices = {parameter.device for parameter in parameters.values()}
    # one vector lies in one place
    if len(devices) > 1:
        raise InputError(f"the parameters lie on {devices}: move the model to one device")
    return parameters


def _vector_type(parameters: Mapping[str, Tensor]) -> torch.dtype:
    dtype = torch.float32
    for parameter in parameters.values():
        own = parameter.dtype
        if own.is_complex:
            own = own.to_real()
        dtype = torch.promote_types(dtype, own)
    return dtype
