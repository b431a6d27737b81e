"""Partitions as text: `Dirichlet(alpha=0.3, clients=100)`."""

from __future__ import annotations

from fedstep.core.calls import Language
from fedstep.data.partition.base import Partitioner
from fedstep.data.partition.dirichlet import Dirichlet, ProportionalDirichlet
from fedstep.data.partition.even import Iid, Natural, Shards
from fedstep.data.partition.sizes import LogNormal, Power, SizeLaw

RULES = (Dirichlet, ProportionalDirichlet, Iid, Shards, SizeLaw, Natural)
LAWS = (LogNormal, Power)

_LANGUAGE = Language(
    "partition",
    {rule.__name__: rule for rule in RULES},
    {law.__name__: law for law in LAWS},
    "Dirichlet(alpha=0.3, clients=100)",
    "LogNormal(sigma=1.0)",
)


def partitioner(text: str) -> Partitioner:
    """The rule that a text names.

    >>> partitioner("SizeLaw(clients=10, law=Power(exponent=2.0))")
    SizeLaw(clients=10, law=Power(exponent=2.0))
    """
    rule: Partitioner = _LANGUAGE.build(text)
    return rule
