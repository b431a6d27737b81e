"""Record what scipy's strong Wolfe search accepts along polynomials: `python tests/oracles/extract_scipy.py` (needs scipy)."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import scipy
from scipy.optimize import line_search

HERE = Path(__file__).parent / "extracts" / "scipy_wolfe.json"


def main() -> None:
    """Quadratics, quartics and quartics with two valleys, with phi'(0) < 0, for three pairs of constants."""
    dice, cases = random.Random(0), []
    for c, c2 in ((1e-4, 0.9), (0.1, 0.9), (0.1, 0.2)):
        for kind in ("quadratic", "quartic", "valleys"):
            for _ in range(8):
                s, a, b = dice.uniform(0.1, 5), dice.uniform(0.01, 20), dice.uniform(0.01, 5)
                tail = {
                    "quadratic": [a],
                    "quartic": [a, 0.0, b],
                    "valleys": [a, -2 * (a * b) ** 0.5, b],
                }[kind]
                poly = np.polynomial.Polynomial([dice.uniform(-3, 3), -s, *tail])
                step = wolfe(poly, c, c2)
                if step is not None:
                    cases.append(
                        {"kind": kind, "poly": poly.coef.tolist(), "c": c, "c2": c2, "step": step}
                    )
    HERE.write_text(json.dumps({"scipy": scipy.__version__, "cases": cases}) + "\n")


def wolfe(poly: np.polynomial.Polynomial, c: float, c2: float) -> float | None:
    """scipy's step along poly from 0, None where it found none."""
    slope, zero, one = poly.deriv(), np.zeros(1), np.ones(1)
    found = line_search(
        lambda x: poly(x[0]), lambda x: np.array([slope(x[0])]), zero, one, c1=c, c2=c2
    )
    return None if found[0] is None else float(found[0])


if __name__ == "__main__":
    main()
