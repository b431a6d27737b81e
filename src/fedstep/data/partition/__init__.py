"""Dealing pooled samples to clients."""

from fedstep.data.partition.base import Partitioner
from fedstep.data.partition.dirichlet import Dirichlet, ProportionalDirichlet
from fedstep.data.partition.even import Iid, Natural, Shards
from fedstep.data.partition.sizes import LogNormal, Power, SizeLaw, WeightLaw
from fedstep.data.partition.text import partitioner

__all__ = [
    "Dirichlet",
    "Iid",
    "LogNormal",
    "Natural",
    "Partitioner",
    "Power",
    "ProportionalDirichlet",
    "Shards",
    "SizeLaw",
    "WeightLaw",
    "partitioner",
]
