"""The methods as the published programs run them, where that is not the papers' algorithm.

Two programs: FedExP's (Jhunjhunwala et al., 2023) and, built on it, the one of Painless Federated
Learning. Both weight clients by their numbers of samples, multiply the extrapolation's eps by the
number of clients and decay it by 0.998^2 a round before it is used, and evaluate the mean of the
last two iterates of extrapolated methods. Their SGD clients clip the gradient to norm 10 and then
add weight decay 1e-4; the step of round t = 0, 1, ... is step * decay^(t + 1). Their line-search
clients neither clip nor decay, start every round at `start`, grow by 2^(1/500) a step, know no
largest step, and on failure move by 1e-6. What the paper's program gained later is in `later.py`.
`docs/authors.md` has the constants, and maps every program run to a call.
"""

from fedstep.authors.averaging import (
    fedadagrad,
    fedadam,
    fedavg,
    fedavgm,
    fedexp,
    fedprox,
    fedprox_exp,
)
from fedstep.authors.later import (
    fedadamexpsls_regularized,
    fedadamsls_regularized,
    fedexpsls_regularized,
    fedsls_regularized,
    scaffold_sls,
    sls_acc,
    sls_eg,
)
from fedstep.authors.running_sums import fedavgm_exp, scaffold, scaffold_exp
from fedstep.authors.searching import (
    delta_sgd,
    fedadamexpsls,
    fedadamsls,
    fedexpsls,
    fedexpsls_goldstein,
    fedsls,
    fedsls_goldstein,
)

# in the order in which the methods are listed and proposed: plain ones first
__all__ = [  # noqa: RUF022
    "fedavg",
    "fedavgm",
    "fedprox",
    "fedexp",
    "fedprox_exp",
    "fedadagrad",
    "fedadam",
    "fedsls",
    "fedexpsls",
    "fedsls_goldstein",
    "fedexpsls_goldstein",
    "fedadamsls",
    "fedadamexpsls",
    "delta_sgd",
    "fedavgm_exp",
    "scaffold",
    "scaffold_exp",
    "fedsls_regularized",
    "fedexpsls_regularized",
    "fedadamsls_regularized",
    "fedadamexpsls_regularized",
    "scaffold_sls",
    "sls_eg",
    "sls_acc",
]
