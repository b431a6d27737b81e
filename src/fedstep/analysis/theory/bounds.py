"""The bounds of the theorems, as functions of numbers.

Symbols: c Armijo's constant, L smoothness, mu strong convexity, K local steps, T rounds, eta_g the
server's step, max_step the largest client step, D2 = |w_0 - w*|^2, kappa the noise of the batch
losses, w-bar the mean of w_0 .. w_{T-1}.

`printed_*` is what the paper prints, and false in general (docs/theory.md has the runs). The others
follow from Armijo's condition and convexity; proofs and tests:
tests/theorems/test_convergence_bounds.py. A bound whose hypotheses fail may be any number.
"""

from __future__ import annotations

from math import inf, nan


def smallest_step(
    L: float,
    c: float,
    max_step: float,
    shrink: float = 1.0,
) -> float:
    """The smallest step that an Armijo search on an L-smooth function can end at; shrink 1: the
    largest acceptable step.
    """
    # a flat function accepts whatever is tried first; L may also be NaN
    if not L > 0:
        return max_step
    longest_sure = shrink * 2 * (1 - c) / L
    return min(max_step, longest_sure)


def kappa_limit(c: float, max_step: float) -> float:
    """The noise below which c' is positive."""
    return c / (2 * max_step)


def reduced_c(
    c: float,
    kappa: float,
    max_step: float,
) -> float:
    """c' = c - 2 kappa max_step: what noise leaves of c."""
    # 0 * inf is NaN: without noise any max_step will do
    if not kappa > 0:
        return c
    return c - 2 * kappa * max_step


def step_limit(
    c: float,
    eta_g: float,
    K: int,
    L: float,
    kappa: float = 0.0,
) -> float:
    """The max_step that the convex theorem of FedSLS asks to stay below.

    2c' - eta_g - K L max_step > 0
    """
    margin = 2 * c - eta_g
    return _over(margin, K * L + 4 * kappa)


def safe_step_limit(
    c: float,
    eta_g: float,
    K: int,
    L: float,
    kappa: float = 0.0,
) -> float:
    """The same for the strongly convex theorem, whose proof drops a factor 2 on the drift.

    2c' - eta_g - 2 K L max_step > 0
    """
    margin = 2 * c - eta_g
    return _over(margin, 2 * K * L + 4 * kappa)


def printed_sgd(
    c: float,
    max_step: float,
    steps: int,
    D2: float,
) -> float:
    """Theorem 1 as printed, on f(w-bar) - f* of SGD: false, the step that a search ends at does
    not know max_step.
    """
    decrease = 2 * c - 1
    return _over(c * D2, decrease * max_step * steps)


def sgd(
    c: float,
    low: float,
    steps: int,
    D2: float,
) -> float:
    """Vaswani et al.'s form of it, low the smallest step."""
    decrease = 2 * c - 1
    return _over(c * D2, decrease * low * steps)


def sgd_strongly(
    mu: float,
    low: float,
    steps: int,
    D2: float,
) -> float:
    """On |w_T - w*|^2 of SGD, for c >= 1/2."""
    step_factor = 1 - mu * low
    return step_factor**steps * D2


def printed_convex(
    c: float,
    eta_g: float,
    K: int,
    L: float,
    max_step: float,
    T: int,
    D2: float,
) -> float:
    """On f(w-bar) - f* of FedSLS as printed, c standing for c': false for c near 1.

    FedExpSLS: eta_g = 1.
    """
    margin = 2 * c - eta_g - K * L * max_step
    return _over(c * D2, margin * eta_g * max_step * K * T)


def printed_strongly(
    mu: float,
    eta_g: float,
    K: int,
    max_step: float,
    T: int,
    D2: float,
) -> float:
    """On |w_T - w*|^2 of FedSLS as printed: false for c near 1. FedExpSLS: eta_g = 1."""
    round_factor = 1 - eta_g * max_step * mu * K / 2
    return float(round_factor**T) * D2


def convex(
    c: float,
    eta_g: float,
    low: float,
    T: int,
    D2: float,
) -> float:
    """On f(w-bar) - f* of FedSLS, 0 < eta_g <= 1, and of FedExpSLS with eta_g = 1: of every round
    only the first step counts.
    """
    decrease = 2 * c - 1
    return _over(c * D2, decrease * eta_g * low * T)


def strongly(
    mu: float,
    eta_g: float,
    K: int,
    low: float,
    T: int,
    D2: float,
) -> float:
    """On |w_T - w*|^2 of FedSLS, 0 < eta_g <= 1, and of FedExpSLS with eta_g = 1.

    Every client mu-strongly convex.
    """
    step_factor = 1 - mu * low
    # the server goes eta_g of the way to where K such steps lead
    round_factor = 1 - eta_g * (1 - step_factor**K)
    return round_factor**T * D2


def strongly_in_the_mean(
    c: float,
    mu: float,
    eta_g: float,
    low: float,
    T: int,
    D2: float,
) -> float:
    """The same where only the mean of the clients is mu-strongly convex.

    The first step of a round brings a client nearer by eta (2 - 1/c) (f_i(w_t) - f_i*), the others
    do not lead away; the mean over clients of f_i(w_t) - f_i* is at least mu/2 |w_t - w*|^2.
    """
    round_factor = 1 - eta_g * low * (2 - 1 / c) * mu / 2
    return round_factor**T * D2


def drift(
    c: float,
    K: int,
    max_step: float,
    gap: float,
) -> float:
    """On the mean over k < K of |x_k - w_t|^2 with full gradients, gap = f_i(w_t) - f_i*.

    |x_k - w_t|^2 <= k sum_j eta_j^2 |g_j|^2 (Cauchy), c eta_j |g_j|^2 <= f_i(x_j) - f_i(x_{j+1})
    (Armijo).
    """
    return (K - 1) / 2 * max_step / c * gap


def gradients(
    c: float,
    low: float,
    gap: float,
) -> float:
    """On mean_i |grad f_i(w)|^2 with gap = f(w) - mean_i f_i*.

    The paper's heterogeneity lemma bounds the sum over N clients by this and drops the N.
    """
    return _over(gap, c * low)


def _over(above: float, below: float) -> float:
    """above / below as a bound: no bound where the divisor vanishes or is not a number."""
    if below != 0:
        return above / below
    if above > 0:
        return inf
    return nan
