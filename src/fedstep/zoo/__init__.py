"""The named methods: each paper's algorithm in the slots of this library.

Notation: x_t the server's model, S the round's clients, D_i = x_{t,K}^i - x_t the delta of client
i, D = mean_i D_i. Every client runs K local steps x <- x - eta g on mini-batches. `fedstep.authors`
has the variants of the published programs.
"""

from fedstep.zoo.adaptive_servers import (
    fedadagrad,
    fedadagrad_flower,
    fedadam,
    fedadam_flower,
    fedams,
    fedyogi,
    fedyogi_flower,
)
from fedstep.zoo.armijo import fedexpsls, fedsls, fedsls_adaptive, fedsls_lean
from fedstep.zoo.averaging import fedavg, fedavgm, fedexp, fedprox, fedprox_exp
from fedstep.zoo.client_momentum import fedcm, fedinit, local_adamw
from fedstep.zoo.client_moves import (
    fafed,
    fedadasls,
    fedlocalasync,
    fedseg,
    fedsls_momentum,
    fedsls_nesterov,
    fedzo,
)
from fedstep.zoo.compressed import fedcams
from fedstep.zoo.computed_steps import delta_sgd, feddecsps, feddfw, feddog, fedsps
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
from fedstep.zoo.horizon import padamfed, padamfed_vr, parfrefl
from fedstep.zoo.matrices import fedmuon, local_muon
from fedstep.zoo.other_searches import fedponos, fedprobls, fedsalsa, fedsls_estimated
from fedstep.zoo.pace import fedpace, fedpace_recall
from fedstep.zoo.proximal import fedexprox, fedexprox_grads, fedexprox_stops, fednew
from fedstep.zoo.server_steps import feddog_server, fedhyper_g, fedhyper_gm, fedhyper_sl, nastya
from fedstep.zoo.sharpness import fedlesam, fedsam, fedspeed, mofedsam
from fedstep.zoo.tuning_free import fathom, fedglad, fedngn

__all__ = [
    "delta_sgd",
    "fafed",
    "fathom",
    "fedadagrad",
    "fedadagrad_flower",
    "fedadam",
    "fedadam_flower",
    "fedadasls",
    "fedams",
    "fedavg",
    "fedavgm",
    "fedcams",
    "fedcm",
    "feddane",
    "feddecsps",
    "feddfw",
    "feddog",
    "feddog_server",
    "feddyn",
    "fedexp",
    "fedexprox",
    "fedexprox_grads",
    "fedexprox_stops",
    "fedexpsls",
    "fedglad",
    "fedhyper_g",
    "fedhyper_gm",
    "fedhyper_sl",
    "fedinit",
    "fedlesam",
    "fedlin",
    "fedlocalasync",
    "fedmuon",
    "fednew",
    "fedngn",
    "fednova",
    "fedpace",
    "fedpace_recall",
    "fedponos",
    "fedprobls",
    "fedproto",
    "fedprox",
    "fedprox_exp",
    "fedsalsa",
    "fedsam",
    "fedseg",
    "fedsls",
    "fedsls_adaptive",
    "fedsls_estimated",
    "fedsls_lean",
    "fedsls_momentum",
    "fedsls_nesterov",
    "fedspeed",
    "fedsps",
    "fedyogi",
    "fedyogi_flower",
    "fedzo",
    "local_adamw",
    "local_muon",
    "mime",
    "mime_adam",
    "mimelite",
    "mimelite_adam",
    "mofedsam",
    "moon",
    "nastya",
    "padamfed",
    "padamfed_vr",
    "parfrefl",
    "scaffold",
    "scaffold_exp",
]
