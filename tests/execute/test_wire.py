"""Messages between processes arrive as they were sent."""

from __future__ import annotations

import mmap
import os
from dataclasses import replace
from multiprocessing import Pipe
from threading import Thread

import pytest
import torch
from torch import nn

from fedstep.algorithm import Broadcast
from fedstep.execute import wire
from fedstep.execute.shared_broadcast import SharedBroadcast
from fedstep.execute.wire import LARGE, SMALL, pack_message, receive, send, unpack_message


def through_a_pipe(value):
    ours, theirs = Pipe()
    sender = Thread(
        target=lambda: send(ours, pack_message(value))
    )  # a pipe holds less than a message
    sender.start()
    message = receive(theirs)
    sender.join()
    return unpack_message(message)


MESSAGE = {
    "small": torch.arange(6).reshape(2, 3),
    "bfloat16": torch.tensor(1.5, dtype=torch.bfloat16),
    "large bfloat16": torch.arange(3 * SMALL).reshape(3, -1).to(torch.bfloat16),
    "large": torch.arange(200_000, dtype=torch.float64).reshape(2, 100_000),
    "larger": torch.arange(LARGE // 4, dtype=torch.float32).reshape(-1, 2),
    "not contiguous": torch.arange(200_000).reshape(400, 500).T,
    "empty": torch.empty(0, 2),
    "bools": torch.arange(SMALL) % 3 == 0,
}


@pytest.mark.parametrize("name", MESSAGE)
def test_tensors_come_back_as_they_were_sent(name):
    value = MESSAGE[name]
    again = through_a_pipe({"a": value, "b": 3})["a"]
    assert torch.equal(value, again)
    assert value.dtype == again.dtype
    again.zero_()  # and may be written to
    assert value.numel() == 0 or value.any()


def test_a_large_tensor_has_pages_of_its_own_which_a_fork_does_not_write_to():
    room = wire._room(LARGE)
    assert isinstance(room, mmap.mmap)
    assert isinstance(wire._room(LARGE - 1), bytearray)
    child = os.fork()
    if child == 0:
        room[:1] = b"x"
        os._exit(0)
    os.waitpid(child, 0)
    assert room[:1] == b"\0"


@pytest.mark.parametrize("size", [3, SMALL])
def test_a_parameter_stays_a_parameter(size):
    again = through_a_pipe([nn.Parameter(torch.ones(size)), torch.ones(size)])
    assert [type(value) for value in again] == [nn.Parameter, torch.Tensor]
    assert again[0].requires_grad
    assert torch.equal(again[0], again[1])


def test_the_memory_of_a_large_tensor_is_not_copied_into_the_message():
    value = torch.zeros(SMALL)
    message = pack_message(value)
    (buffer,) = message.buffers
    value[3] = 1.0
    assert torch.frombuffer(buffer, dtype=torch.float32)[3] == 1.0
    assert len(message.text) < SMALL


@pytest.mark.parametrize("size", [0, 2, 50, 100, 5000])
def test_an_end_in_the_middle_of_a_message_is_seen(size):
    ours, theirs = Pipe()
    send(ours, pack_message(torch.zeros(2 * SMALL)))
    beginning = os.read(theirs.fileno(), size)
    assert len(beginning) == size
    ours, theirs = Pipe()
    os.write(ours.fileno(), beginning)
    ours.close()
    with pytest.raises((EOFError, OSError)):
        receive(theirs)


def test_a_shared_broadcast_holds_the_last_one_and_knows_its_form():
    sent = Broadcast(torch.arange(4.0), {"c": torch.ones(2)}, 0)
    shared = SharedBroadcast(sent)
    shared.write(replace(sent, x=sent.x + 1))
    assert torch.equal(shared.read(3).x, sent.x + 1)
    assert torch.equal(shared.read(3).shared["c"], sent.shared["c"])
    assert shared.read(3).round == 3
    assert shared.fits(sent)
    assert not shared.fits(replace(sent, x=sent.x.double()))
    assert not shared.fits(replace(sent, shared={"d": sent.x}))
