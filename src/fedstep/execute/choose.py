"""Which executor suits a model."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from fedstep.execute.base import Local
from fedstep.execute.cohort import Cohort
from fedstep.execute.sequential import Sequential
from fedstep.models.flat import FlatModel
from fedstep.models.module import ModuleModel


@dataclass(frozen=True)
class StepCost:
    """Milliseconds of a local step of one client."""

    fixed: float  # what dispatch costs
    per_parameter: float  # what memory traffic costs

    def of(self, model: FlatModel) -> float:
        return self.fixed + self.per_parameter * model.dim


# Fitted to dense models of 1 to 217 thousand parameters, batches of 10 and
# 50, blocks of 16: `benchmarks/cost.py --quick`, benchmarks/results/cost.md. The two lines meet at
# 83 thousand parameters.
ALONE = StepCost(0.53, 5.0e-6)
STACKED = StepCost(0.08, 10.4e-6)
# Recurrent layers, attention and convolutions spend their time in kernels that gain little from
# stacking (LSTM: nothing; a tiny CNN at batch 50: 1.1 times); dropout draws its masks client by
# client.
KERNELS = (
    nn.modules.conv._ConvNd,
    nn.RNNBase,
    nn.modules.dropout._DropoutNd,
    nn.MultiheadAttention,
)


def choose(model: FlatModel) -> Local:
    """Blocks of clients where a step of a stacked client is cheaper than one alone.

    One client at a time for the rest.
    """
    if _has_slow_kernels(model):
        return Sequential()
    # by the number of parameters and by nothing that is measured here: the choice decides the bits
    if STACKED.of(model) < ALONE.of(model):
        return Cohort()
    return Sequential()


def _has_slow_kernels(model: FlatModel) -> bool:
    if not isinstance(model, ModuleModel):
        return False
    return any(isinstance(module, KERNELS) for module in model.module.modules())
