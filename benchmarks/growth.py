"""How the cost of a run grows: figures with fitted exponents, one axis of growth at a time.

    python benchmarks/growth.py                  all axes
    python benchmarks/growth.py rounds study     some
    python benchmarks/growth.py --fresh          measure anew what is there already

A point is written to results/growth.json as soon as it is measured: after an interruption the same
command goes on with the next one. Times are CPU seconds (workers: of all processes), the smallest of
several rounds: other work on the machine adds to the clock, not to them (or little). An exponent is
the slope of log time over log size at the three largest sizes, where what is done once a round
weighs least. Figures go to docs/images/growth-AXIS.svg, the table to docs/speed.md.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

import fedstep
from fedstep.analysis.results import load_results
from fedstep.data.federation import Federation
from fedstep.data.parts import Parts
from fedstep.data.plan import Plan
from fedstep.execute import Executor, Processes, Sequential, Store, Task
from fedstep.execute.choose import choose
from fedstep.models.module import ModuleModel
from fedstep.report.chart import Chart, Series
from fedstep.report.style import colour_pair, line_style
from fedstep.report.svg import draw
from fedstep.run.simulate import Simulation
from fedstep.spec import build
from machine import machine
from serve import living, spent

HERE = Path(__file__).resolve().parent
POINTS = HERE / "results" / "growth.json"
DOCS = HERE.parent / "docs"
BEGIN = "<!-- growth: written by benchmarks/growth.py -->"
END = "<!-- growth: end -->"
LARGEST = 3  # sizes that the exponent is fitted to
METHOD = "fedavg(step=0.01)"
FEATURES = 4
RUNS = 200  # of the study that is opened


def tree() -> float:
    """CPU seconds of this process and of those below it; looking for them costs milliseconds."""
    return spent() + living()


def round_seconds(
    simulation: Simulation,
    rounds: int = 8,
    cpu: Callable[[], float] = time.process_time,
) -> float:
    """The cheapest of some rounds; the first makes what is made once."""
    cheapest = math.inf
    begun = None
    for _ in simulation.run(simulation.begin(rounds), Store(), rounds):
        now = cpu()
        if begun is not None:
            cheapest = min(cheapest, now - begun)
        begun = cpu()
    return cheapest


def simulation(
    clients: int,
    per_round: int,
    samples: int = 1,
    plan: Plan | None = None,
    module: nn.Module | None = None,
    executor: Executor | None = None,
) -> Simulation:
    """Clients with some samples each, of as many features as the module takes."""
    torch.manual_seed(0)
    module = module or nn.Linear(FEATURES, 2)
    features = next(module.parameters()).shape[1]
    # views of one row of numbers: a million clients must not be a matter of memory here
    x = torch.randn(1, features).expand(clients * samples, -1)
    y = torch.arange(clients * samples) % 2
    parts = Parts.consecutive(torch.full((clients,), samples))
    model = ModuleModel(module)
    task = Task(
        build(METHOD), model, Federation((x, y), parts), plan or Plan(batch=samples, steps=1)
    )
    return Simulation(task, per_round, executor=executor or choose(model))


def population(size: int) -> float:
    return round_seconds(simulation(clients=size, per_round=10))


def clients(size: int) -> float:
    return round_seconds(simulation(clients=size, per_round=size))


def parameters(size: int) -> float:
    side = round(math.sqrt(size))
    module = nn.Linear(side, side, bias=False)
    return round_seconds(simulation(clients=4, per_round=2, module=module), rounds=5)


def steps(size: int) -> float:
    plan = Plan(batch=4, steps=size)
    return round_seconds(simulation(clients=4, per_round=4, samples=16, plan=plan), rounds=4)


def samples(size: int) -> float:
    plan = Plan(batch=10, steps=5)
    return round_seconds(simulation(clients=4, per_round=4, samples=size, plan=plan))


def workers(size: int) -> float:
    """Of the whole tree: what more processes than cores cost is CPU time that is lost."""
    module = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 2))
    plan = Plan(batch=32, steps=8)
    with Processes(Sequential(), size) as executor:
        sim = simulation(32, 32, samples=32, plan=plan, module=module, executor=executor)
        return round_seconds(sim, rounds=5, cpu=tree)


def trained(folder: Path, rounds: int, resume: bool = False) -> list[float]:
    """Train in a folder; CPU seconds at the end of every round."""
    marks = [time.process_time()]
    x = torch.randn(8, 1, FEATURES, generator=torch.Generator().manual_seed(0))
    data = [(inputs, torch.tensor([k % 2])) for k, inputs in enumerate(x)]
    torch.manual_seed(0)
    fedstep.fit(
        nn.Linear(FEATURES, 2),
        data,
        METHOD,
        rounds=rounds,
        per_round=2,
        batch=1,
        local_steps=1,
        progress=False,
        every=10**9,
        out=folder,
        resume=resume,
        on_round=lambda row: marks.append(time.process_time()),
    )
    return marks


def rounds(size: int) -> float:
    """A round of the second half of a run, with its journal and checkpoints."""
    with tempfile.TemporaryDirectory() as folder:
        marks = trained(Path(folder), size)
    middle = len(marks) // 2
    return (marks[-1] - marks[middle]) / (len(marks) - 1 - middle)


def study(size: int) -> float:
    """Opening a study of 200 runs of so many rounds."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "study"
        _many_runs(home, size)
        begun = time.process_time()
        results = load_results(home)
        seconds = time.process_time() - begun
        found = sum(len(run.rows) for group in results.groups for run in group.runs)
        assert found == RUNS * size, f"{found} rows"
    return seconds


def _many_runs(home: Path, rounds: int) -> None:
    """A study whose runs are copies of one: opening asks for rows, not for what is in them."""
    home.mkdir(parents=True)
    seeds = ", ".join(str(seed) for seed in range(RUNS))
    (home / "study.toml").write_text(
        f'title = "growth"\nseeds = [{seeds}]\n'
        f'data = "plane"\nmodel = "plane()"\nrounds = {rounds}\nper_round = 2\nbatch = 1\n'
        'steps = 1\n[[methods]]\nlabel = "fedavg"\nspec = "fedavg(step=0.1)"\n'
    )
    one = home / "one"
    trained(one, rounds)
    from fedstep.study.study_file import parse_study

    path = home / "study.toml"
    found = parse_study(path, path.read_bytes(), "paper", check=False)
    for job in found.runs({"fedavg": "fedavg(step=0.1)"}):
        shutil.copytree(one, home / "runs" / job.digest)
    shutil.rmtree(one)


@dataclass(frozen=True)
class Growth:
    """Something that grows, and what is measured of it."""

    name: str
    title: str
    x_label: str
    y_label: str
    sizes: Sequence[int]
    measure: Callable[[int], float]
    least: float  # the exponent that the work itself has


AXES = (
    Growth(
        "population",
        "Clients in the population",
        "clients in the population, 10 a round",
        "CPU seconds a round",
        (10**2, 10**3, 10**4, 10**5, 10**6),
        population,
        least=0,
    ),
    Growth(
        "clients",
        "Clients a round",
        "clients a round, one step each",
        "CPU seconds a round",
        (1, 3, 10, 32, 100, 320, 1000),
        clients,
        least=1,
    ),
    Growth(
        "parameters",
        "Parameters",
        "parameters, two clients a round",
        "CPU seconds a round",
        (10**3, 10**4, 10**5, 10**6, 10**7),
        parameters,
        least=1,
    ),
    Growth(
        "steps",
        "Local steps",
        "local steps of four clients",
        "CPU seconds a round",
        (1, 3, 10, 32, 100, 320, 1000),
        steps,
        least=1,
    ),
    Growth(
        "samples",
        "Samples a client",
        "samples of each client, five steps of ten",
        "CPU seconds a round",
        (10**2, 10**3, 10**4, 10**5, 10**6),
        samples,
        least=0,
    ),
    Growth(
        "workers",
        "Workers",
        "worker processes for the same 32 clients",
        "CPU seconds a round, all processes",
        (1, 2, 4, 8),
        workers,
        least=0,
    ),
    Growth(
        "rounds",
        "Rounds",
        "rounds of a run that is written to disk",
        "CPU seconds a round, in the second half",
        (10, 100, 1000, 10_000),
        rounds,
        least=0,
    ),
    Growth(
        "study",
        "Opening a study",
        "rounds of each of 200 runs",
        "CPU seconds to open it",
        (10, 100, 1000),
        study,
        least=1,
    ),
)


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The slope of log seconds over log size, by least squares."""
    xs = [math.log(size) for size in sizes]
    ys = [math.log(value) for value in seconds]
    mean_x = sum(xs) / len(xs)
    mean_y = sum(ys) / len(ys)
    covered = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / covered


def measured(axes: Iterable[Growth], fresh: bool) -> dict[str, dict[str, float]]:
    """Every point of these axes, and what is known of the others."""
    known: dict[str, dict[str, float]] = {}
    if POINTS.exists():
        known = json.loads(POINTS.read_text())["seconds"]
    for axis in axes:
        if fresh:
            known.pop(axis.name, None)
        points = known.setdefault(axis.name, {})
        for size in axis.sizes:
            if str(size) in points:
                continue
            begun = time.perf_counter()
            points[str(size)] = axis.measure(size)
            took = time.perf_counter() - begun
            print(f"{axis.name} {size:,}: {points[str(size)]:.3g} s ({took:.0f} s by the clock)")
            POINTS.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"machine": machine(), "seconds": known}, indent=1)
            POINTS.write_text(text + "\n")
    return known


def figure(axis: Growth, sizes: Sequence[int], seconds: Sequence[float]) -> str:
    """The chart of the report's pages, with the style that they have around it."""
    line = Series(axis.title, [float(size) for size in sizes], seconds, line_style(0))
    chart = Chart(axis.title, axis.x_label, axis.y_label, (line,), log_x=True, log_y=True)
    colour = colour_pair(0)[0]
    style = (
        "text{font:11px sans-serif;fill:#555}.grid{stroke:#ccc;stroke-width:.6}"
        f".line{{fill:none;stroke:{colour};stroke-width:1.8}}.mark{{fill:{colour}}}"
    )
    head = '<svg xmlns="http://www.w3.org/2000/svg" '
    drawn = draw(chart).replace("<svg ", head, 1).replace(">", f"><style>{style}</style>", 1)
    # wider than on the pages, where what is beyond the edge is seen: the last label ends there
    return drawn.replace('viewBox="0 0 560 ', 'viewBox="0 0 590 ', 1) + "\n"


def table(known: dict[str, dict[str, float]]) -> str:
    """Markdown: every axis with its ends and its exponent, and the figures below."""
    lines = [
        "| what grows | from | to | CPU seconds there | exponent | of the work itself |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    pictures = []
    for axis in AXES:
        points = known.get(axis.name, {})
        sizes = [size for size in axis.sizes if str(size) in points]
        if len(sizes) < LARGEST:
            continue
        seconds = [points[str(size)] for size in sizes]
        found = exponent(sizes[-LARGEST:], seconds[-LARGEST:])
        lines.append(
            f"| {axis.x_label} | {sizes[0]:,} | {sizes[-1]:,} | "
            f"{seconds[0]:.2g} to {seconds[-1]:.2g} | {found:.2f} | {axis.least:g} |"
        )
        name = f"growth-{axis.name}.svg"
        (DOCS / "images" / name).write_text(figure(axis, sizes, seconds))
        pictures.append(f"![{axis.title}: {axis.y_label} by {axis.x_label}](images/{name})")
    return "\n".join([*lines, "", *pictures])


def main() -> None:
    names = [axis.name for axis in AXES]
    parser = argparse.ArgumentParser(description="How the cost of a run grows.")
    parser.add_argument("axes", nargs="*", metavar="axis", help=f"of {', '.join(names)}")
    parser.add_argument("--fresh", action="store_true", help="measure anew")
    parser.add_argument("--most", type=int, default=10**9, help="leave larger sizes out")
    options = parser.parse_args()
    if unknown := set(options.axes) - set(names):
        parser.error(f"no axis {', '.join(sorted(unknown))}: choose of {', '.join(names)}")
    torch.set_num_threads(1)
    chosen = []
    for axis in AXES:
        if not options.axes or axis.name in options.axes:
            sizes = [size for size in axis.sizes if size <= options.most]
            chosen.append(replace(axis, sizes=sizes))
    text = table(measured(chosen, options.fresh))
    print(text)
    page = DOCS / "speed.md"
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


if __name__ == "__main__":
    main()
