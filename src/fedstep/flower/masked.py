"""The replies of nodes to the stages of secure aggregation, looked at before Flower's workflow.

Flower's workflow takes what it is sent: a reply without its keys, or of another length, would end
the run. Here such a reply is as none, and its reason is logged. What is masked cannot be looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from math import prod
from typing import Any

from flwr.app import Message
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
from flwr.compat.common.recorddict_compat import recorddict_to_fitres
from flwr.serverapp import Grid
from flwr.supercore.primitives.asymmetric import bytes_to_public_key
from numpy.lib.format import read_array_header_1_0, read_magic

from fedstep.execute.crew import LOG
from fedstep.flower.courier import SLACK
from fedstep.remote.parcel import RefusedReply

FACTOR = (1,)  # shape of the weight that Flower's mod sends beside the vector


class MaskedGrid:
    """The part of a grid that Flower's workflow uses; passes on the replies it can work with."""

    def __init__(self, grid: Grid, digits: int) -> None:
        self.grid = grid
        self.digits = digits  # length of the vectors that are summed

    def send_and_receive(
        self,
        messages: Iterable[Message],
        *,
        timeout: float,
    ) -> list[Message]:
        # a list: Flower walks through the messages twice
        messages = list(messages)
        for message in messages:
            # the usual twelve hours would let nodes work on rounds that are long over
            message.metadata.ttl = timeout + SLACK
        if not messages:
            return []
        stage = str(messages[0].content.config_records[RECORD_KEY_CONFIGS][Key.STAGE])
        usable: dict[int, Message] = {}
        asked = {message.metadata.dst_node_id for message in messages}
        for reply in self.grid.send_and_receive(messages, timeout=timeout):
            node = reply.metadata.src_node_id
            try:
                if node not in asked or node in usable:
                    raise RefusedReply("it was not asked, or answers twice")
                self._check(stage, reply, asked, usable)
            except Exception as error:
                # whatever a forged message may cause: it is that node's, not the run's
                LOG.warning("node %d is left out of the sum (%s): %s", node, stage, error)
                continue
            usable[node] = reply
        return list(usable.values())

    def _check(
        self,
        stage: str,
        reply: Message,
        asked: set[int],
        usable: Mapping[int, Message],
    ) -> None:
        if reply.has_error():
            raise RefusedReply(f"error {reply.error.code}: {str(reply.error.reason)[:300]}")
        values = reply.content.config_records[RECORD_KEY_CONFIGS]
        if stage == Stage.SETUP:
            _check_keys(values, [_values(other) for other in usable.values()])
        elif stage == Stage.SHARE_KEYS:
            _check_pairs(values, Key.DESTINATION_LIST, Key.CIPHERTEXT_LIST, asked)
        elif stage == Stage.COLLECT_MASKED_VECTORS:
            recorddict_to_fitres(reply.content, keep_input=True)
            _check_vectors(values, self.digits)
        else:
            # of nodes that are gone, too: they may be no longer among those that are asked
            _check_pairs(values, Key.NODE_ID_LIST, Key.SHARE_LIST, None)


def _values(reply: Message) -> Mapping[str, Any]:
    values: Mapping[str, Any] = reply.content.config_records[RECORD_KEY_CONFIGS]
    return values


def _check_keys(values: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> None:
    """Two public keys that nobody else has sent: all nodes would give up over a bad one."""
    names = (Key.PUBLIC_KEY_1, Key.PUBLIC_KEY_2)
    keys = [values[name] for name in names]
    taken = {other[name] for other in others for name in names}
    if len({*keys, *taken}) != len(keys) + len(taken):
        raise RefusedReply("its public keys are somebody else's")
    for key in keys:
        bytes_to_public_key(key)


def _check_pairs(
    values: Mapping[str, Any],
    whose: str,
    what: str,
    known: set[int] | None,
) -> None:
    """A list of nodes, each once, and as many pieces of bytes."""
    nodes = _typed(values[whose], int)
    pieces = _typed(values[what], bytes)
    if len(nodes) != len(pieces) or len(set(nodes)) != len(nodes):
        raise RefusedReply(f"{whose} and {what} do not belong together")
    if known is not None and not set(nodes) <= known:
        raise RefusedReply(f"{whose} names nodes that were not asked")


def _typed(values: Any, kind: type) -> list[Any]:
    if not isinstance(values, list) or any(type(value) is not kind for value in values):
        raise RefusedReply(f"a list of {kind.__name__} was expected")
    return values


def _check_vectors(values: Mapping[str, Any], digits: int) -> None:
    """The weight and the masked numbers, of the length that everybody's have."""
    pieces = _typed(values[Key.MASKED_PARAMETERS], bytes)
    shapes = [_shape_of(piece) for piece in pieces]
    if shapes != [FACTOR, (digits,)]:
        raise RefusedReply(f"masked numbers have the shapes {shapes}, expected ({digits},)")


def _shape_of(piece: bytes) -> tuple[int, ...]:
    """Of whole numbers in numpy's format; no memory is taken for what a header claims."""
    file = BytesIO(piece)
    if read_magic(file) != (1, 0):
        raise RefusedReply("masked numbers are in another format")
    shape, _, dtype = read_array_header_1_0(file)
    if dtype.kind not in "iu":
        raise RefusedReply(f"masked numbers are {dtype}, whole ones were expected")
    if len(piece) - file.tell() != prod(shape) * dtype.itemsize:
        raise RefusedReply(f"{len(piece)} bytes for masked numbers of the shape {shape}")
    return tuple(shape)
