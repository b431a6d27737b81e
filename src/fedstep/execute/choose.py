"""Which executor suits a model."""

from __future__ import annotations

from torch import nn

from fedstep.execute.cohort import Cohort
from fedstep.execute.sequential import Sequential
from fedstep.execute.task import Local
from fedstep.models.flat import FlatModel
from fedstep.models.module import ModuleModel

# Milliseconds of a local step of one client, (fixed, a parameter): what dispatch costs, and what memory traffic costs.
# Fitted to dense models of 5 thousand to 1 million parameters, batches of 10 and 50, 16 clients: benchmarks/cost.py.
# The two lines meet at 155 thousand parameters (measured: 1.2 times faster at 108 thousand, 0.95 times at 217 thousand).
ALONE = (0.60, 4.9e-6)
STACKED = (0.12, 8.0e-6)
# Convolutions, recurrent layers and attention spend their time in kernels that gain little or nothing from stacking
# (1.2 times at best); dropout draws its masks client by client.
KERNELS = (nn.modules.conv._ConvNd, nn.RNNBase, nn.modules.dropout._DropoutNd, nn.MultiheadAttention)


def choose(model: FlatModel) -> Local:
    """Blocks of clients where a step of a stacked client is cheaper than one alone, one client at a time for the rest."""
    if isinstance(model, ModuleModel) and any(isinstance(m, KERNELS) for m in model.module.modules()):
        return Sequential()
    alone, stacked = (fixed + each * model.dim for fixed, each in (ALONE, STACKED))
    return Cohort() if stacked < alone else Sequential()
