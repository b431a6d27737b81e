"""Federated learning that finds its step sizes: line search on the clients, extrapolation on the server.

    import fedstep
    result = fedstep.fit(model, clients, test=(x, y))

Names are loaded when first used, so that `import fedstep` and the command line's help stay light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "fit": "training",
    "Fit": "training",
    "Scoring": "training",
    "fine_tune": "training",
    "load": "training",
    "Standardize": "models.standardize",
    "Algorithm": "algorithm",
    "Batch": "core.types",
    "InputError": "core.errors",
    "Federation": "data.federation",
    "Plan": "data.plan",
    "FunctionModel": "models.function",
    "ModuleModel": "models.module",
    "to_group_norm": "models.layers",
    "LineSearch": "steps.search",
    "build": "spec",
}
_MODULES = ("authors", "callbacks", "optim", "zoo")

__all__ = ["__version__", *_HOMES, *_MODULES]

if TYPE_CHECKING:
    from fedstep import authors as authors
    from fedstep import callbacks as callbacks
    from fedstep import optim as optim
    from fedstep import zoo as zoo
    from fedstep.algorithm import Algorithm as Algorithm
    from fedstep.core.errors import InputError as InputError
    from fedstep.core.types import Batch as Batch
    from fedstep.data.federation import Federation as Federation
    from fedstep.data.plan import Plan as Plan
    from fedstep.models.function import FunctionModel as FunctionModel
    from fedstep.models.layers import to_group_norm as to_group_norm
    from fedstep.models.module import ModuleModel as ModuleModel
    from fedstep.models.standardize import Standardize as Standardize
    from fedstep.spec import build as build
    from fedstep.steps.search import LineSearch as LineSearch
    from fedstep.training import Fit as Fit
    from fedstep.training import Scoring as Scoring
    from fedstep.training import fine_tune as fine_tune
    from fedstep.training import fit as fit
    from fedstep.training import load as load


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"fedstep.{name}")
    if name in _HOMES:
        return getattr(import_module(f"fedstep.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'fedstep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
