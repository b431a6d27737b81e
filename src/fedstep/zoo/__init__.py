"""The named methods: what each paper prints, in the slots of this library.

Notation: x_t the server's model, S the round's clients, D_i = x_{t,K}^i - x_t the delta of client i, D = mean_i D_i.
Every client runs K local steps x <- x - eta g on mini-batches. `fedstep.authors` has the variants of the published programs.
"""

from fedstep.zoo.adaptive import fedadagrad, fedadam, fedyogi
from fedstep.zoo.averaging import fedavg, fedavgm, fedexp, fedprox, fedprox_exp
from fedstep.zoo.movement import (
    delta_sgd,
    fafed,
    fedadasls,
    feddfw,
    feddog,
    fedlocalasync,
    fedprobls,
    fedseg,
    fedsls_momentum,
    fedsls_nesterov,
    fedzo,
)
from fedstep.zoo.search import fedexpsls, fedsls
from fedstep.zoo.searches import feddecsps, fedponos, fedsalsa, fedsps

__all__ = [
    "delta_sgd",
    "fafed",
    "fedadagrad",
    "fedadam",
    "fedadasls",
    "fedavg",
    "fedavgm",
    "feddecsps",
    "feddfw",
    "feddog",
    "fedexp",
    "fedexpsls",
    "fedlocalasync",
    "fedponos",
    "fedprobls",
    "fedprox",
    "fedprox_exp",
    "fedsalsa",
    "fedseg",
    "fedsls",
    "fedsls_momentum",
    "fedsls_nesterov",
    "fedsps",
    "fedyogi",
    "fedzo",
]
