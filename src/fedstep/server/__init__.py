"""What the server does: rules, readouts, weighting, sampling, and how deltas travel to it."""

from fedstep.server.centres import (
    ByList,
    Centre,
    CoordinateMedian,
    GeometricMedian,
    Krum,
    TrimmedMean,
)
from fedstep.server.codecs import Codec, ErrorFeedback, Plain, ScaledSign, TopK
from fedstep.server.guards import Guard, Open
from fedstep.server.moments import Adaptive, Average, Peak, SecondMoment, Signed, Sum
from fedstep.server.norm_limit import NormLimit
from fedstep.server.privacy import UserPrivacy
from fedstep.server.program_variants import (
    ExtrapolateAlong,
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
from fedstep.server.weighting import BySamples, Equal, SamplesUpTo, Weighting

__all__ = [
    "Adaptive",
    "Average",
    "ByList",
    "BySamples",
    "Centre",
    "Codec",
    "CoordinateMedian",
    "DistanceOverSum",
    "Diversity",
    "EnvelopePolyak",
    "Equal",
    "ErrorFeedback",
    "Exponential",
    "Extrapolate",
    "ExtrapolateAlong",
    "FlowerAdam",
    "GeometricMedian",
    "Given",
    "Guard",
    "HeavyBall",
    "Hypergradient",
    "Krum",
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
    "SamplesUpTo",
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
    "TrimmedMean",
    "Uniform",
    "UserPrivacy",
    "Weighting",
]
