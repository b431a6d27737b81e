"""What is remembered and exchanged besides the delta."""

from fedstep.corrections.base import Correction

__all__ = ["Correction"]
