"""The front door: train a model over clients without naming a learning rate."""

from fedstep.training.call import fit
from fedstep.training.personal import fine_tune
from fedstep.training.result import Fit
from fedstep.training.scoring import Scoring
from fedstep.training.stored import load_result as load

__all__ = ["Fit", "Scoring", "fine_tune", "fit", "load"]
