"""Partitions as text: `Dirichlet(alpha=0.3, clients=100)`."""

from __future__ import annotations

from fedstep.core.calls import Language
from fedstep.data.partition import (
    Dirichlet,
    Iid,
    LogNormal,
    Natural,
    Partitioner,
    Power,
    ProportionalDirichlet,
    Shards,
    SizeLaw,
)

RULES = (Dirichlet, ProportionalDirichlet, Iid, Shards, SizeLaw, Natural)
LAWS = (LogNormal, Power)

_LANGUAGE = Language(
    "partition",
    {r.__name__: r for r in RULES},
    {law.__name__: law for law in LAWS},
    "Dirichlet(alpha=0.3, clients=100)",
    "LogNormal(sigma=1.0)",
)


def rule(text: str) -> Partitioner:
    """The partition that a text names.

    >>> rule("SizeLaw(clients=10, law=Power(exponent=2.0))")
    SizeLaw(clients=10, law=Power(exponent=2.0))
    """
    made: Partitioner = _LANGUAGE.build(text)
    return made
