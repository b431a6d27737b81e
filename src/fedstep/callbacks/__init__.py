"""What looks on while `fit` trains, and may stop it."""

from typing import TYPE_CHECKING

from fedstep.core.lazy import lazy_names

_HOMES = {
    "Callback": "base",
    "RoundEnd": "base",
    "RunStart": "base",
    "EarlyStopping": "stopping",
    "KeepBest": "keeping",
    "Checkpoint": "keeping",
    "Progress": "progress",
    "MLflow": "trackers",
    "TensorBoard": "trackers",
    "WandB": "trackers",
}
__all__ = list(_HOMES)

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

if TYPE_CHECKING:
    from fedstep.callbacks.base import Callback as Callback
    from fedstep.callbacks.base import RoundEnd as RoundEnd
    from fedstep.callbacks.base import RunStart as RunStart
    from fedstep.callbacks.keeping import Checkpoint as Checkpoint
    from fedstep.callbacks.keeping import KeepBest as KeepBest
    from fedstep.callbacks.progress import Progress as Progress
    from fedstep.callbacks.stopping import EarlyStopping as EarlyStopping
    from fedstep.callbacks.trackers import MLflow as MLflow
    from fedstep.callbacks.trackers import TensorBoard as TensorBoard
    from fedstep.callbacks.trackers import WandB as WandB
