"""The front door: train a model over clients without naming a learning rate."""

from fedstep.training.call import Fit, fit

__all__ = ["Fit", "fit"]
