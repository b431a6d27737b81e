"""Which executor suits a model."""

from __future__ import annotations

from torch import nn

from fedstep.execute.cohort import Cohort
from fedstep.execute.sequential import Sequential
from fedstep.execute.task import Local
from fedstep.models.flat import FlatModel
from fedstep.models.module import ModuleModel

SMALL = 200_000  # parameters up to which stacking clients saves more dispatch than it costs in memory traffic
ALONE = (nn.modules.conv._ConvNd, nn.RNNBase, nn.modules.dropout._DropoutNd, nn.MultiheadAttention)


def choose(model: FlatModel) -> Local:
    """Blocks of clients for small models of matrix products, one client at a time for the rest."""
    if model.dim > SMALL:
        return Sequential()
    if isinstance(model, ModuleModel) and any(isinstance(m, ALONE) for m in model.module.modules()):
        return Sequential()
    return Cohort()
