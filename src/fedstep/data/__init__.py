"""Clients' samples and how a round walks through them.

What is not listed here is private to the package.
"""

from typing import TYPE_CHECKING

from fedstep.core.lazy import lazy_names

_HOMES = {
    "cifar10": "cifar",
    "cifar100": "cifar",
    "Federation": "federation",
    "Transform": "federation",
    "from_flwr_datasets": "hub",
    "emnist": "idx",
    "mnist": "idx",
    "Users": "users",
    "femnist": "leaf",
    "shakespeare": "leaf",
    "shakespeare_roles": "leaf",
    "libsvm": "libsvm_text",
    "Partitioner": "partition",
    "partitioner": "partition",
    "Dirichlet": "partition",
    "ProportionalDirichlet": "partition",
    "Iid": "partition",
    "Natural": "partition",
    "Shards": "partition",
    "SizeLaw": "partition",
    "WeightLaw": "partition",
    "LogNormal": "partition",
    "Power": "partition",
    "Parts": "parts",
    "check_disjoint": "parts",
    "label_counts": "parts",
    "partition_hash": "parts",
    "Plan": "plan",
    "Order": "plan",
    "Fixed": "plan",
    "InOrder": "plan",
    "Shuffled": "plan",
    "DataSet": "sets",
    "data_set": "sets",
    "data_sets": "sets",
    "Split": "tasks",
    "fetch": "tasks",
    "load": "tasks",
    "clients_from": "frames",
    "Pad": "padding",
}
__all__ = list(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

if TYPE_CHECKING:
    from fedstep.data.cifar import cifar10 as cifar10
    from fedstep.data.cifar import cifar100 as cifar100
    from fedstep.data.federation import Federation as Federation
    from fedstep.data.federation import Transform as Transform
    from fedstep.data.frames import clients_from as clients_from
    from fedstep.data.hub import from_flwr_datasets as from_flwr_datasets
    from fedstep.data.idx import emnist as emnist
    from fedstep.data.idx import mnist as mnist
    from fedstep.data.leaf import femnist as femnist
    from fedstep.data.leaf import shakespeare as shakespeare
    from fedstep.data.leaf import shakespeare_roles as shakespeare_roles
    from fedstep.data.libsvm_text import libsvm as libsvm
    from fedstep.data.padding import Pad as Pad
    from fedstep.data.partition import Dirichlet as Dirichlet
    from fedstep.data.partition import Iid as Iid
    from fedstep.data.partition import LogNormal as LogNormal
    from fedstep.data.partition import Natural as Natural
    from fedstep.data.partition import Partitioner as Partitioner
    from fedstep.data.partition import Power as Power
    from fedstep.data.partition import ProportionalDirichlet as ProportionalDirichlet
    from fedstep.data.partition import Shards as Shards
    from fedstep.data.partition import SizeLaw as SizeLaw
    from fedstep.data.partition import WeightLaw as WeightLaw
    from fedstep.data.partition import partitioner as partitioner
    from fedstep.data.parts import Parts as Parts
    from fedstep.data.parts import check_disjoint as check_disjoint
    from fedstep.data.parts import label_counts as label_counts
    from fedstep.data.parts import partition_hash as partition_hash
    from fedstep.data.plan import Fixed as Fixed
    from fedstep.data.plan import InOrder as InOrder
    from fedstep.data.plan import Order as Order
    from fedstep.data.plan import Plan as Plan
    from fedstep.data.plan import Shuffled as Shuffled
    from fedstep.data.sets import DataSet as DataSet
    from fedstep.data.sets import data_set as data_set
    from fedstep.data.sets import data_sets as data_sets
    from fedstep.data.tasks import Split as Split
    from fedstep.data.tasks import fetch as fetch
    from fedstep.data.tasks import load as load
    from fedstep.data.users import Users as Users
