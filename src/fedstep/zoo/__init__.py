"""The named methods: what each paper prints, in the slots of this library.

Notation: x_t the server's model, S the round's clients, D_i = x_{t,K}^i - x_t the delta of client i, D = mean_i D_i.
Every client runs K local steps x <- x - eta g on mini-batches. `fedstep.authors` has the variants of the published programs.
"""

from fedstep.zoo.adaptive import fedadagrad, fedadam, fedyogi
from fedstep.zoo.averaging import fedavg, fedavgm, fedexp, fedprox, fedprox_exp
from fedstep.zoo.corrected import (
    feddane,
    feddyn,
    fedlin,
    fednova,
    fedproto,
    mime,
    mime_adam,
    mimelite,
    mimelite_adam,
    moon,
    scaffold,
    scaffold_exp,
)
from fedstep.zoo.search import fedexpsls, fedsls

__all__ = [
    "fedadagrad",
    "fedadam",
    "fedavg",
    "fedavgm",
    "feddane",
    "feddyn",
    "fedexp",
    "fedexpsls",
    "fedlin",
    "fednova",
    "fedproto",
    "fedprox",
    "fedprox_exp",
    "fedsls",
    "fedyogi",
    "mime",
    "mime_adam",
    "mimelite",
    "mimelite_adam",
    "moon",
    "scaffold",
    "scaffold_exp",
]
