"""Results as files: the folder that `fit(out=...)` writes, also for a run that was in memory."""

from __future__ import annotations

import copy
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor, nn

from fedstep.core.errors import InputError
from fedstep.models.standardize import Standardize, standardized
from fedstep.report.render import page_if_possible
from fedstep.run import checkpoint
from fedstep.run.driver import opened
from fedstep.run.files import file_sha256, read_sealed, write_sealed, write_tensors
from fedstep.run.folder import DONE, JOURNAL, MODEL, SERVER, SPEC, check_file, read_mark
from fedstep.run.journal import Journal
from fedstep.run.record import RoundReport
from fedstep.training.arguments import CUSTOM
from fedstep.training.result import REPORT, Fit

# where a module that begins with Standardize has its buffers
MEAN = "0.mean"
DEVIATION = "0.deviation"


def save_result(result: Fit, folder: str | Path) -> Path:
    """Write a result into a new folder and return its path."""
    path = Path(folder)
    with opened(path):
        # inside the claim: two that save at once cannot both find the folder empty
        if (path / SPEC).exists():
            raise InputError(f"{path}: there is a run already; choose another directory")
        write_sealed(path / SPEC, result.settings)
        journal = Journal(path / JOURNAL)
        journal.keep(0)
        for row in result.rows:
            journal.append(row.to_dict())
        journal.flush()
        server = result.server
        hashes = {
            SPEC: file_sha256(path / SPEC),
            JOURNAL: file_sha256(path / JOURNAL),
            MODEL: write_tensors(path / MODEL, _tensors(result)),
            SERVER: write_tensors(path / SERVER, checkpoint.server_tensors(server)),
        }
        # the mark comes last: without it the folder is no finished run
        write_sealed(
            path / DONE,
            {"rounds": server.round, "horizon": server.horizon, "sha256": hashes},
        )
        with page_if_possible():
            result.report(path / REPORT)
    return path


def load_result(folder: str | Path, model: nn.Module | None = None) -> Fit:
    """The result of a folder that `result.save` or `fit(out=...)` wrote.

    model: a module of the same architecture; a copy of it with the trained values is `result.model`,
    with the first layer of `standardize=True` where the run had one. Without a module the values are
    in `result.x` and in model.safetensors.
    """
    path = Path(folder)
    mark = read_mark(path)
    if mark is None:
        raise InputError(f"{path}: there is no finished run; the call that makes it goes on")
    # before anything is read: what is damaged is not believed
    for name in (SPEC, JOURNAL, MODEL, SERVER):
        check_file(path, mark, name)
    settings = read_sealed(path / SPEC)
    rows = [RoundReport.from_dict(row) for row in Journal(path / JOURNAL).rows()]
    tensors = safetensors.torch.load_file(path / SERVER)
    server = checkpoint.server_from(tensors, mark.rounds, mark.horizon)
    # the files hold numbers, no architecture: without a module there is nothing to fill
    trained = None
    trainable = None
    if model is not None:
        trainable = _filled(model, safetensors.torch.load_file(path / MODEL), path)
        trained = copy.deepcopy(trainable).eval()
    return Fit(
        name=str(settings.get("method", CUSTOM)),
        rows=rows,
        server=server,
        model=trained,
        settings=settings,
        trainable=trainable,
    )


def _tensors(result: Fit) -> dict[str, Tensor]:
    if result.model is None:
        return {"x": result.x}
    return result.model.state_dict()


def _filled(model: nn.Module, tensors: dict[str, Tensor], path: Path) -> nn.Module:
    """A copy of the module with the values of the file, in the modes that the module has."""
    twin = copy.deepcopy(model)
    if {MEAN, DEVIATION} <= set(tensors) - set(twin.state_dict()):
        # `standardize=True` put a layer in front, which whoever loads the run does not have
        twin = standardized(Standardize(tensors[MEAN], tensors[DEVIATION]), twin)
    try:
        twin.load_state_dict(tensors)
    except RuntimeError as error:
        # torch lists every tensor: one line of it must do
        reason = str(error).splitlines()[-1].strip()
        raise InputError(
            f"{path / MODEL}: its tensors do not fit {type(model).__name__} ({reason})"
        ) from None
    return twin
