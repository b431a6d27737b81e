"""Draw the path of every method on the problem of the paper's Figure 1: `python docs/pictures.py`,
or of some: `python docs/pictures.py fedavg fedsls`.

Two clients in the plane, F1 = (w1 + w2 - 3)^2 and F2 = (w1 + 2 w2 - 3)^2, ten local steps a round,
thirty rounds, every method with its default settings. A picture lies in docs/images/methods/NAME.svg.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from fedstep.cli.catalog import catalog
from fedstep.core.errors import InputError
from fedstep.data.plan import InOrder, Plan
from fedstep.execute import Store, Task
from fedstep.models.paper import plane
from fedstep.paper.toy import LOCAL_STEPS, federation, value
from fedstep.run.simulate import Simulation
from fedstep.spec import build

HOME = Path(__file__).parent / "images" / "methods"
ROUNDS = 30
WIDTH = 480
HEIGHT = 260
LEFT = (-0.3, 3.7)  # of w1
UP = (-0.6, 1.9)  # of w2
LEVELS = (0.01, 0.05, 0.2, 0.8, 3.0, 8.0)  # of F
Point = tuple[float, float]


def main() -> None:
    """All pictures; a method that cannot run in the plane is named."""
    HOME.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[1:]
    for entry in catalog():
        if "." in entry.name:  # the published programs' variants have no pages
            continue
        if chosen and entry.name not in chosen:
            continue
        try:
            points = path_of(entry.name)
        except InputError as error:
            print(f"{entry.name}: no picture ({error})")
            continue
        (HOME / f"{entry.name}.svg").write_text(picture(entry.name, points))


def path_of(method: str) -> list[Point]:
    """The server's points, the start first."""
    model = plane()
    plan = Plan(1, LOCAL_STEPS, order=InOrder())
    simulation = Simulation(Task(build(method), model, federation(), plan), per_round=2)
    server = simulation.begin(ROUNDS)
    points = [_point(server.x)]
    for after_round, _ in simulation.run(server, Store(), ROUNDS):
        points.append(_point(after_round.x))
    return points


def picture(method: str, points: Sequence[Point]) -> str:
    """Contours of F, the path over them, where it began and where the minimum is."""
    parts = [f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#f7f8fa"/>']
    for level in LEVELS:
        parts.append(f'<path d="{_line(_contour(level))}z" fill="none" stroke="#c3cad3"/>')
    parts.append(
        f'<path d="{_line(points)}" fill="none" stroke="#0072b2" stroke-width="1.6" '
        'stroke-linejoin="round"/>'
    )
    for x, y in map(_pixel, points):
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="#0072b2"/>')
    x, y = _pixel(points[0])
    parts.append(f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="#1c2430"/>')
    x, y = _pixel((3.0, 0.0))
    parts.append(
        f'<path d="M{x - 6:.1f} {y:.1f}h12m-6 -6v12" stroke="#d55e00" stroke-width="2.4"/>'
    )
    words = f"{method}, {ROUNDS} rounds: F from {_power(value_of(points[0]))} to {_power(value_of(points[-1]))}"
    parts.append(
        f'<text x="14" y="22" font-family="sans-serif" font-size="13" fill="#1c2430">{words}</text>'
    )
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n'
        f"<title>{words}</title>\n{inside}\n</svg>\n"
    )


def value_of(point: Point) -> float:
    """F at a point."""
    return value(torch.tensor(point, dtype=torch.float64))


def _point(x: Sequence[float]) -> Point:
    return float(x[0]), float(x[1])


def _power(number: float) -> str:
    """The order of magnitude: further digits would depend on the processor."""
    if not math.isfinite(number):
        return "infinity"
    if number < 1e-12:
        return "below 1e-12"
    return f"{number:.0e}".replace("e-0", "e-").replace("e+0", "e")


def _contour(level: float) -> list[Point]:
    """F = (w1 - 3)^2 + 3 (w1 - 3) w2 + 2.5 w2^2 is an ellipse around (3, 0)."""
    points = []
    for k in range(60):
        angle = 2 * math.pi * k / 60
        # Cholesky of ((1, 1.5), (1.5, 2.5)): u = p + 1.5 w2, v = 0.5 w2, F = u^2 + v^2
        u = math.sqrt(level) * math.cos(angle)
        v = math.sqrt(level) * math.sin(angle)
        w2 = 2 * v
        points.append((3 + u - 1.5 * w2, w2))
    return points


def _line(points: Sequence[Point]) -> str:
    pixels = [_pixel(point) for point in points]
    return "M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in pixels)


def _pixel(point: Point) -> Point:
    """What lies far outside is brought near the edge: a browser need not draw to infinity."""
    across = (point[0] - LEFT[0]) / (LEFT[1] - LEFT[0])
    up = (point[1] - UP[0]) / (UP[1] - UP[0])
    return WIDTH * _bounded(across), HEIGHT * (1 - _bounded(up))


def _bounded(part: float) -> float:
    if math.isnan(part):
        return 2.0
    return min(max(part, -2.0), 3.0)


if __name__ == "__main__":
    main()
