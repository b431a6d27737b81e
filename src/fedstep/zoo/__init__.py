"""The named methods: what each paper prints, in the slots of this library.

Notation: x_t the server's model, S the round's clients, D_i = x_{t,K}^i - x_t the delta of client i, D = mean_i D_i.
Every client runs K local steps x <- x - eta g on mini-batches. `fedstep.authors` has the variants of the published programs.
"""

from fedstep.zoo.adaptive import fedadagrad, fedadam, fedyogi
from fedstep.zoo.averaging import fedavg, fedavgm, fedexp, fedprox, fedprox_exp
from fedstep.zoo.search import fedexpsls, fedsls, fedsls_lean
from fedstep.zoo.searches import feddecsps, fedponos, fedsalsa, fedsps

__all__ = [
    "fedadagrad",
    "fedadam",
    "fedavg",
    "fedavgm",
    "feddecsps",
    "fedexp",
    "fedexpsls",
    "fedponos",
    "fedprox",
    "fedprox_exp",
    "fedsalsa",
    "fedsls",
    "fedsls_lean",
    "fedsps",
    "fedyogi",
]
