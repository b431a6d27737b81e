"""What is remembered and exchanged besides the delta."""

from fedstep.corrections.base import Correction, Finished
from fedstep.corrections.client_momentum import ClientMomentum
from fedstep.corrections.consensus import Consensus
from fedstep.corrections.contrast import Contrast
from fedstep.corrections.control_variates import AnchorControl, MeanControl
from fedstep.corrections.dynamic import Dynamic
from fedstep.corrections.envelope import Envelope
from fedstep.corrections.exchange import Exchange
from fedstep.corrections.normalised import Normalised
from fedstep.corrections.prototypes import Prototypes
from fedstep.corrections.pseudogradient import PseudoGradient
from fedstep.corrections.server_statistics import (
    BothMoments,
    FirstMoment,
    Frozen,
    Statistics,
    VarianceReduced,
)

__all__ = [
    "AnchorControl",
    "BothMoments",
    "ClientMomentum",
    "Consensus",
    "Contrast",
    "Correction",
    "Dynamic",
    "Envelope",
    "Exchange",
    "Finished",
    "FirstMoment",
    "Frozen",
    "MeanControl",
    "Normalised",
    "Prototypes",
    "PseudoGradient",
    "Statistics",
    "VarianceReduced",
]
