"""fedstep through its front door, `fedstep.fit`: plain SGD clients and searching clients, in one process and with two workers."""

from __future__ import annotations

import contextlib

import torch

import fedstep
from with_torch import clients_of, module_of

ENVIRONMENT = "torch"
PACKAGES = ("torch",)
VARIANTS = {
    "fedstep FedAvg": {},
    "fedstep FedAvg p2": {"workers": 2},
    "fedstep FedSLS": {"method": "fedsls(max_step=10.0)"},
    "fedstep FedSLS p2": {"method": "fedsls(max_step=10.0)", "workers": 2},
    "fedstep FedSLS lean": {"method": "fedsls_lean(max_step=10.0)"},
    "fedstep FedSLS lean p2": {"method": "fedsls_lean(max_step=10.0)", "workers": 2},
    "fedstep fedpace": {"method": "fedpace"},
}
WORKLOADS = ("w1", "w2", "w3", "empty")
ONLY = {
    "fedstep FedSLS": ("w1", "w2", "w3"),
    "fedstep FedSLS p2": ("w1",),
    "fedstep FedSLS lean": ("w2", "w3"),
    "fedstep FedSLS lean p2": ("w2", "w3"),
    "fedstep fedpace": ("w1", "w2", "w3"),
}

ENDLESS = 10**9


class Finished(Exception):
    """The driver wants no more rounds."""


def compete(work, rounds, method=None, workers=1):
    torch.set_num_threads(1)
    module, clients = module_of(work), clients_of(work)
    asked = iter(rounds)
    done = next(asked)

    def on_round(row):
        nonlocal done
        done(batches=row.backwards, loss=row.loss, **({"trials": row.trials} if row.trials else {}))
        done = next(asked, None)
        if done is None:
            raise Finished

    with contextlib.suppress(Finished):
        fedstep.fit(
            module,
            clients,
            method or f"fedavg(step={work.step})",
            rounds=ENDLESS,
            per_round=len(clients),
            batch=work.batch,
            local_epochs=work.epochs,
            every=ENDLESS,  # no evaluation
            progress=False,
            on_round=on_round,
            workers=workers,
        )
