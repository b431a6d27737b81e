"""Where a run computes: on the device of its model, or where it is told to."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TypeVar

import torch

from fedstep.core.errors import InputError
from fedstep.core.vec import NewState, State
from fedstep.messages import Server
from fedstep.models.flat import FlatModel

VARIABLE = "FEDSTEP_DEVICE"
M = TypeVar("M", bound=FlatModel)


def chosen_device(given: str | torch.device | None = None) -> torch.device | None:
    """The device that is asked for, here or by `FEDSTEP_DEVICE`; None: nobody asks for one.

    What torch does not know, or what this machine does not have, is refused.
    """
    asked = f"device={str(given)!r}"
    if given is None:
        given = os.environ.get(VARIABLE)
        asked = f"{VARIABLE}={given}"
    if not given:
        return None
    try:
        device = torch.device(given)
    except RuntimeError:
        raise InputError(f"{asked}: no device of torch; give cpu, cuda or cuda:1") from None
    if device.type == "meta":
        raise InputError(f"{asked}: a tensor there has no values; give cpu or cuda")
    try:
        # a number tells more than a question: a driver may be there and not work
        torch.zeros(1, device=device)
    except Exception as error:
        # torch raises AssertionError, RuntimeError, NotImplementedError, each for another device
        reason = (str(error).splitlines() or [""])[0][:100]
        raise InputError(
            f"{asked}: torch cannot use it here ({reason}); give cpu, "
            "or install a torch that has it"
        ) from None
    return device


def placed(model: M, given: str | torch.device | None = None) -> M:
    """The model on the device that is asked for; where it lies if nobody asks."""
    device = chosen_device(given)
    if device is None:
        return model
    return model.on(device)


def server_on(server: Server, device: torch.device) -> Server:
    """A server that may have been read from a file, on the device of the model."""
    if server.x.device == device:
        return server
    return replace(
        server,
        x=server.x.to(device),
        readout=server.readout.to(device),
        shared=_state_on(server.shared, device),
        rule=_state_on(server.rule, device),
        eta_g=server.eta_g.to(device),
    )


def _state_on(state: State, device: torch.device) -> NewState:
    return {name: value.to(device) for name, value in state.items()}
