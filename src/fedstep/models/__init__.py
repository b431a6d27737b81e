"""Models as functions of one flat parameter vector."""

from typing import TYPE_CHECKING

from fedstep.core.lazy import lazy_names

_HOMES = {
    "FlatModel": "flat",
    "ModelTraits": "traits",
    "FunctionModel": "function",
    "ModuleModel": "module",
    "to_group_norm": "layers",
    "named_model": "text",
    "logistic": "paper",
    "mlp": "paper",
    "cifar_cnn": "paper",
    "lenet": "paper",
    "femnist_cnn": "paper",
    "resnet18": "paper",
    "char_lstm": "paper",
    "leaf_lstm": "paper",
}
__all__ = list(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

if TYPE_CHECKING:
    from fedstep.models.flat import FlatModel as FlatModel
    from fedstep.models.function import FunctionModel as FunctionModel
    from fedstep.models.layers import to_group_norm as to_group_norm
    from fedstep.models.module import ModuleModel as ModuleModel
    from fedstep.models.paper import char_lstm as char_lstm
    from fedstep.models.paper import cifar_cnn as cifar_cnn
    from fedstep.models.paper import femnist_cnn as femnist_cnn
    from fedstep.models.paper import leaf_lstm as leaf_lstm
    from fedstep.models.paper import lenet as lenet
    from fedstep.models.paper import logistic as logistic
    from fedstep.models.paper import mlp as mlp
    from fedstep.models.paper import resnet18 as resnet18
    from fedstep.models.text import named_model as named_model
    from fedstep.models.traits import ModelTraits as ModelTraits
