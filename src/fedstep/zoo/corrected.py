"""Corrections of client drift: what is exchanged or remembered besides the delta."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.corrections.base import Correction
from fedstep.corrections.contrast import Contrast
from fedstep.corrections.control_variates import AnchorControl, MeanControl
from fedstep.corrections.dynamic import Dynamic
from fedstep.corrections.exchange import Exchange
from fedstep.corrections.normalised import Normalised
from fedstep.corrections.prototypes import Prototypes
from fedstep.corrections.server_statistics import BothMoments, FirstMoment, Frozen, VarianceReduced
from fedstep.local.directions import Direction, Momentum, Steepest
from fedstep.local.preconditioned import Rescaled
from fedstep.local.solver import LocalSolver
from fedstep.local.terms import Proximal, Term
from fedstep.server.readouts import LastTwo
from fedstep.server.rules import Extrapolate, Step
from fedstep.steps.fixed import Constant, Divided
from fedstep.steps.rule import StepRule
from fedstep.zoo.averaging import fedavg, fedprox


def fednova(
    step: float = 0.1, momentum: float = 0.0, mu: float = 0.0, server_step: float = 1.0
) -> Algorithm:
    """FedAvg for clients that take different numbers of steps.

        x_{t+1} = x_t + server_step * mean_i(a_i) * mean_i(D_i / a_i)

    a_i is how far a gradient of 1 would have moved the client: K_i step for plain SGD, less simple
    with `momentum` or a proximal term `mu` on the client.
    Paper: Wang et al., Tackling the Objective Inconsistency Problem in Heterogeneous Federated
    Optimization, NeurIPS 2020.
    Special case: equal numbers of steps: FedAvg.
    """
    # without momentum and mu the client is FedAvg's to the bit, and may work in the dual form
    direction: Direction = Steepest()
    if momentum:
        direction = Momentum(momentum)
    terms: tuple[Term, ...] = ()
    if mu:
        terms = (Proximal(mu),)
    client = LocalSolver(Constant(step), direction, terms=terms)
    return Algorithm(client, Step(server_step), Normalised(momentum, mu))


def scaffold(step: float = 0.1, option: int = 2, server_step: float = 1.0) -> Algorithm:
    """Clients correct their drift by control variates.

        client i descends f_i(x) + <c - c_i, x>;  x_{t+1} = x_t + server_step * D
        c <- c + |S|/N mean_i(change of c_i)
        c_i <- grad f_i(x_t) (option 1), or c_i - c - D_i / (sum of the steps taken) (option 2)

    c and c_i begin at 0.
    Paper: Karimireddy et al., SCAFFOLD: Stochastic Controlled Averaging for Federated Learning,
    ICML 2020.
    Special case: the first round is FedAvg; one client is SGD.
    """
    if option not in (1, 2):
        raise InputError(f"scaffold(option={option}): the paper has options 1 and 2")
    correction: Correction = MeanControl()
    if option == 1:
        correction = AnchorControl()
    return replace(fedavg(step, server_step), correction=correction)


def scaffold_exp(
    step: float = 0.1, option: int = 2, eps: float = 1e-3, max_server_step: float = inf
) -> Algorithm:
    """SCAFFOLD clients under the FedExP server.

        clients as in scaffold;  x_{t+1} = x_t + eta_g * D with eta_g as in fedexp

    Paper: Jhunjhunwala et al., FedExP: Speeding Up Federated Averaging via Extrapolation, ICLR
    2023.
    Special case: a very large eps gives eta_g 1, SCAFFOLD.
    """
    return replace(
        scaffold(step, option), server=Extrapolate(eps, max_server_step), readout=LastTwo()
    )


def feddyn(
    step: float = 0.1,
    alpha: float = 0.1,  # the paper tries 0.1, 0.01 and 0.001
    server_step: float = 1.0,
) -> Algorithm:
    """Clients' functions are bent until their optima agree.

        client i descends f_i(x) - <h_i, x> + alpha/2 |x - x_t|^2;  h_i <- h_i - alpha D_i
        h <- h - alpha |S|/N D;  x_{t+1} = x_t + server_step * (D - h / alpha)

    h and h_i begin at 0. A small alpha with few local steps makes the server's sum of deltas swing:
    the theory solves exactly.
    Paper: Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021.
    Special case: the first round, all clients taking part, is FedProx(alpha) with server step 2.
    """
    return replace(fedavg(step, server_step), correction=Dynamic(alpha))


def fedlin(
    step: float = 0.1,
    divide: bool = False,  # True is the paper's, for clients with different numbers of steps
    server_step: float = 1.0,
) -> Algorithm:
    """Clients descend with the common gradient at the server's point in place of their own.

        client i descends f_i(x) + <g - grad f_i(x_t), x>,  g = mean_i grad f_i(x_t)
        x_{t+1} = x_t + server_step * D

    With `divide` a client that takes K_i steps uses step / K_i, the paper's choice where they
    differ. Two exchanges a round.
    Paper: Mitra et al., Linear Convergence in Federated Learning, NeurIPS 2021.
    Special case: one local step on all samples is gradient descent.
    """
    rule: StepRule = Constant(step)
    if divide:
        rule = Divided(step)
    return Algorithm(LocalSolver(rule), Step(server_step), Exchange())


def feddane(
    step: float = 0.1,
    mu: float = 0.01,  # the program's grid: 0, 0.001, 0.01, 0.1, 1
    server_step: float = 1.0,
) -> Algorithm:
    """FedProx clients with the mean gradient of another sample of clients.

        client i descends f_i(x) + <g - grad f_i(x_t), x> + mu/2 |x - x_t|^2
        x_{t+1} = x_t + server_step * D

    g is the mean of grad f_j(x_t) over a second sample of clients. Two exchanges a round.
    Paper: Li et al., FedDANE: A Federated Newton-Type Method, Asilomar 2019.
    Special case: mu 0, all clients taking part: FedLin.
    """
    return replace(fedprox(step, mu, server_step), correction=Exchange(asks_others=True))


def mime(step: float = 0.1, beta: float = 0.9, server_step: float = 1.0) -> Algorithm:
    """Clients take steps of momentum SGD on the common function, with variance-reduced gradients.

        client step: x <- x - step * (beta m + (1 - beta) (grad f_B(x) - grad f_B(x_t) + g)),
        g = mean_i grad f_i(x_t)
        x_{t+1} = x_t + server_step * D;  m <- beta m + (1 - beta) g

    B is the batch at hand; m begins at 0 and is not changed by the clients. Two exchanges a round,
    two gradients a local step.
    Paper: Karimireddy et al., Breaking the Centralized Barrier for Cross-Device Federated Learning,
    NeurIPS 2021.
    Special case: beta 0, batches of all samples: FedLin.
    """
    # the term has weight beta / (1 - beta): with this step, step * beta m is left of it
    plain = fedavg(step * (1 - beta), server_step)
    return replace(plain, correction=VarianceReduced(FirstMoment(beta)))


def mimelite(step: float = 0.1, beta: float = 0.9, server_step: float = 1.0) -> Algorithm:
    """Clients take the steps of momentum SGD with the server's momentum.

        client step: x <- x - step * (beta m + (1 - beta) grad f_B(x))
        x_{t+1} = x_t + server_step * D
        m <- beta m + (1 - beta) mean_i grad f_i(x_t)

    m begins at 0 and is not changed by the clients.
    Paper: Karimireddy et al., Breaking the Centralized Barrier for Cross-Device Federated Learning,
    NeurIPS 2021.
    Special case: beta 0 is FedAvg.
    """
    # as in mime
    plain = fedavg(step * (1 - beta), server_step)
    return replace(plain, correction=Frozen(FirstMoment(beta)))


def mime_adam(
    step: float = 0.1, beta: float = 0.9, beta2: float = 0.99, eps: float = 1e-3
) -> Algorithm:
    """Mime with Adam's statistics.

        client step: x <- x - step * (beta m + (1 - beta) h) / (sqrt(v) + eps),
        h = grad f_B(x) - grad f_B(x_t) + g
        m <- beta m + (1 - beta) g;  v <- beta2 v + (1 - beta2) g^2,  g = mean_i grad f_i(x_t)
        x_{t+1} = x_t + D

    m begins at 0, v at 1; neither is changed by the clients.
    Paper: Karimireddy et al., Breaking the Centralized Barrier for Cross-Device Federated Learning,
    NeurIPS 2021.
    Special case: the first round is Mime with step / (1 + eps).
    """
    return _with_adam(mime(step, beta), VarianceReduced(BothMoments(beta, beta2)), eps)


def mimelite_adam(
    step: float = 0.1, beta: float = 0.9, beta2: float = 0.99, eps: float = 1e-3
) -> Algorithm:
    """MimeLite with Adam's statistics.

        client step: x <- x - step * (beta m + (1 - beta) grad f_B(x)) / (sqrt(v) + eps)
        m, v and x_{t+1} as in mime_adam

    Paper: Karimireddy et al., Breaking the Centralized Barrier for Cross-Device Federated Learning,
    NeurIPS 2021.
    Special case: the first round is MimeLite with step / (1 + eps).
    """
    return _with_adam(mimelite(step, beta), Frozen(BothMoments(beta, beta2)), eps)


def moon(
    step: float = 0.1, mu: float = 1.0, temperature: float = 0.5, server_step: float = 1.0
) -> Algorithm:
    """Clients keep their representations near the server's and away from their own last ones.

        client i descends f_i(x) - mu * mean log(e^{cos(z, z_t)/T}
            / (e^{cos(z, z_t)/T} + e^{cos(z, z_i)/T}));  server as fedavg

    z, z_t, z_i: what enters the last layer at x, at x_t and where the client's last round ended; T
    the temperature. Needs a network with trained layers before its last linear one.
    Paper: Li et al., Model-Contrastive Federated Learning, CVPR 2021.
    Special case: mu 0 is FedAvg, as is every client's first round.
    """
    return replace(fedavg(step, server_step), correction=Contrast(mu, temperature))


def fedproto(step: float = 0.1, weight: float = 1.0, personal: bool = True) -> Algorithm:
    """Clients keep their own models and share the mean embedding of every class.

        client i descends f_i(x) + weight * mean |z - P_y|^2 / width
        P_y = mean of the z of class y that clients sent last

    z is what enters the last layer, y the label. The models are personal, as in the paper: what is
    evaluated is the mean of the models of the round's clients, which no client reads; the clients'
    own loss is `loss` in the report. With personal=False models are averaged as in FedAvg. Needs
    classes, and a network with trained layers before its last linear one.
    Paper: Tan et al., FedProto: Federated Prototype Learning across Heterogeneous Clients, AAAI
    2022.
    Special case: weight 0, personal False: FedAvg.
    """
    return replace(fedavg(step), correction=Prototypes(weight, personal))


def _with_adam(plain: Algorithm, correction: Correction, eps: float) -> Algorithm:
    """The direction divides by the second moment that the correction keeps."""
    client = replace(plain.local, direction=Rescaled(eps))
    return replace(
        plain,
        local=client,
        correction=correction,
    )
