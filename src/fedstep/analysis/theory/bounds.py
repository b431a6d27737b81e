"""The paper's bounds and limits, as functions of numbers.

c is Armijo's constant, c_left the paper's c', L smoothness, mu strong convexity, K local steps, T
rounds, max_step eta_max, kappa kappa_f, eta_g the server's step (FedExpSLS: its clamp eta_gmax),
D2 = |w_0 - w*|^2 and gap = f(w_0) - f*.
"""

from __future__ import annotations


def smallest_step(L: float, c: float, max_step: float) -> float:
    """Lemma 3, on a step of the search."""
    return min(max_step, 2 * (1 - c) / L)


def kappa_limit(c: float, max_step: float) -> float:
    """What kappa_f must stay below."""
    return c / (2 * max_step)


def step_limit(c: float, eta_g: float, K: int, L: float, kappa: float) -> float:
    """What eta_max must stay below: 2 c' - eta_g - K L eta_max > 0. FedExpSLS: eta_g = 1."""
    return (2 * c - eta_g) / (K * L + 4 * kappa)


def sgd_convex_bound(c_left: float, max_step: float, steps: int, D2: float) -> float:
    """Theorem 1, convex, on f(w-bar) - f*."""
    return c_left * D2 / ((2 * c_left - 1) * max_step * steps)


def sgd_nonconvex_bound(c_left: float, L: float, max_step: float, steps: int, gap: float) -> float:
    """Theorem 1, non-convex, on the least |grad f(w_k)|^2."""
    return (1 / max_step + L / (2 * c_left)) * gap / steps


def fedsls_convex_bound(
    c_left: float, eta_g: float, K: int, L: float, max_step: float, T: int, D2: float
) -> float:
    """Theorem 2, on f(w-bar) - f*. Theorem 5: eta_g = 1, and eta_gmax divides once more."""
    bracket = 2 * c_left - eta_g - K * L * max_step
    return c_left * D2 / (bracket * eta_g * max_step * K * T)


def strongly_convex_bound(
    mu: float, eta_g: float, K: int, max_step: float, power: int, D2: float
) -> float:
    """Theorem 3 with power T, Theorem 6 with power T + 1, on |w_T - w*|^2."""
    return float((1 - eta_g * max_step * mu * K / 2) ** power) * D2


def nonconvex_bound(
    c_left: float, eta_g: float, K: int, L: float, max_step: float, gap: float
) -> float:
    """Theorems 4 and 7, on the least |grad f(w_t)|^2."""
    return 2 * L * (K * L * max_step + eta_g) * gap / c_left


def heterogeneity_bound(c: float, c_left: float, L: float, max_step: float, gap: float) -> float:
    """Lemma 1, on the sum over clients of |grad f_i(w)|^2, with gap = f(w) - f*."""
    return max(L / (2 * (1 - c)), 1 / max_step) / c_left * gap


def drift_bound(c_left: float, K: int, max_step: float, gap: float) -> float:
    """Lemma 4, on the mean over clients and steps of |w_k - w_t|^2, with gap = f(w_t) - f*."""
    return K * max_step / c_left * gap
