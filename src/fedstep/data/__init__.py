"""Clients' samples and how a round walks through them."""

from typing import TYPE_CHECKING

from fedstep.core.lazy import lazy_names

_HOMES = {
    "Federation": "federation",
    "Transform": "federation",
    "Parts": "parts",
    "check_disjoint": "parts",
    "label_counts": "parts",
    "partition_hash": "parts",
    "Plan": "plan",
    "Fixed": "plan",
    "InOrder": "plan",
    "Shuffled": "plan",
    "Partitioner": "partition",
    "partitioner": "partition",
    "Dirichlet": "partition",
    "ProportionalDirichlet": "partition",
    "Iid": "partition",
    "Natural": "partition",
    "Shards": "partition",
    "SizeLaw": "partition",
    "LogNormal": "partition",
    "Power": "partition",
    "load": "tasks",
}
__all__ = list(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

if TYPE_CHECKING:
    from fedstep.data.federation import Federation as Federation
    from fedstep.data.federation import Transform as Transform
    from fedstep.data.partition import Dirichlet as Dirichlet
    from fedstep.data.partition import Iid as Iid
    from fedstep.data.partition import LogNormal as LogNormal
    from fedstep.data.partition import Natural as Natural
    from fedstep.data.partition import Partitioner as Partitioner
    from fedstep.data.partition import Power as Power
    from fedstep.data.partition import ProportionalDirichlet as ProportionalDirichlet
    from fedstep.data.partition import Shards as Shards
    from fedstep.data.partition import SizeLaw as SizeLaw
    from fedstep.data.partition import partitioner as partitioner
    from fedstep.data.parts import Parts as Parts
    from fedstep.data.parts import check_disjoint as check_disjoint
    from fedstep.data.parts import label_counts as label_counts
    from fedstep.data.parts import partition_hash as partition_hash
    from fedstep.data.plan import Fixed as Fixed
    from fedstep.data.plan import InOrder as InOrder
    from fedstep.data.plan import Plan as Plan
    from fedstep.data.plan import Shuffled as Shuffled
    from fedstep.data.tasks import load as load
