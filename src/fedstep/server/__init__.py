"""What the server does: rules, readouts, weighting, sampling, and how deltas travel to it."""

from fedstep.server.codecs import Codec, ErrorFeedback, Plain, ScaledSign, TopK
from fedstep.server.guards import Guard, NormLimit, Open
from fedstep.server.moments import Adaptive, Average, Peak, SecondMoment, Signed, Sum
from fedstep.server.program_variants import (
    FlowerAdam,
    ProgramAdagrad,
    ProgramAdam,
    ProgramAdamExtrapolate,
    ProgramExtrapolate,
)
from fedstep.server.readouts import Exponential, Last, LastTwo, Polynomial, Readout, Tail
from fedstep.server.relative import RelativeDiversity
from fedstep.server.rules import Extrapolate, HeavyBall, ServerRule, ServerStep, Step
from fedstep.server.sampling import Given, Sampling, Uniform
from fedstep.server.step_sizes import DistanceOverSum, Diversity, EnvelopePolyak, Hypergradient
from fedstep.server.weighting import BySamples, Equal, Weighting

__all__ = [
    "Adaptive",
    "Average",
    "BySamples",
    "Codec",
    "DistanceOverSum",
    "Diversity",
    "EnvelopePolyak",
    "Equal",
    "ErrorFeedback",
    "Exponential",
    "Extrapolate",
    "FlowerAdam",
    "Given",
    "Guard",
    "HeavyBall",
    "Hypergradient",
    "Last",
    "LastTwo",
    "NormLimit",
    "Open",
    "Peak",
    "Plain",
    "Polynomial",
    "ProgramAdagrad",
    "ProgramAdam",
    "ProgramAdamExtrapolate",
    "ProgramExtrapolate",
    "Readout",
    "RelativeDiversity",
    "Sampling",
    "ScaledSign",
    "SecondMoment",
    "ServerRule",
    "ServerStep",
    "Signed",
    "Step",
    "Sum",
    "Tail",
    "TopK",
    "Uniform",
    "Weighting",
]
