"""Step rules alone, as torch optimisers: docs/optim.md."""

from fedstep.optim.armijo import Armijo
from fedstep.optim.searching import Searching, lean_search

__all__ = ["Armijo", "Searching", "lean_search"]
