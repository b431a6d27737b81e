"""What a client does in a round: terms, oracle, direction, move and the one loop over batches."""

from fedstep.local.conditioned import Conditioned
from fedstep.local.directions import Chain, Clip, Decay, Direction, Momentum, Steepest
from fedstep.local.moves import (
    Decayed,
    Extragradient,
    Inertia,
    Move,
    Nesterov,
    Straight,
)
from fedstep.local.newton import Newton
from fedstep.local.objective import Objective
from fedstep.local.oracles import Autograd, Oracle, TwoPoint
from fedstep.local.preconditioned import (
    Adagrad,
    Adam,
    AMSGrad,
    Moment,
    Preconditioned,
    Rescaled,
    RMSProp,
)
from fedstep.local.progress import LocalRun
from fedstep.local.sharpness import Sharpness
from fedstep.local.solver import LocalSolver
from fedstep.local.stale import Stale
from fedstep.local.storm import Storm
from fedstep.local.terms import L2, Contrastive, Linear, Prototypical, Proximal, Term
from fedstep.local.trace import StepRecord, Trace

__all__ = [
    "L2",
    "AMSGrad",
    "Adagrad",
    "Adam",
    "Autograd",
    "Chain",
    "Clip",
    "Conditioned",
    "Contrastive",
    "Decay",
    "Decayed",
    "Direction",
    "Extragradient",
    "Inertia",
    "Linear",
    "LocalRun",
    "LocalSolver",
    "Moment",
    "Momentum",
    "Move",
    "Nesterov",
    "Newton",
    "Objective",
    "Oracle",
    "Preconditioned",
    "Prototypical",
    "Proximal",
    "RMSProp",
    "Rescaled",
    "Sharpness",
    "Stale",
    "Steepest",
    "StepRecord",
    "Storm",
    "Straight",
    "Term",
    "Trace",
    "TwoPoint",
]
