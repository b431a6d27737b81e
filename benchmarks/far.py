"""What engines cost beside the work itself, and how much memory the driver needs.

    make .venv-flower/.installed
    .venv-flower/bin/python benchmarks/far.py overhead      # alone, processes, Ray, Flower
    .venv-flower/bin/python benchmarks/far.py population    # 3,550 and 1,000,000 clients
    .venv-flower/bin/python benchmarks/far.py memory        # 200 clients of 10 MB each

`overhead`: rounds of 1, 10, 100 and 1,000 clients of one tiny step, engine after engine within
every repetition, so that all meet the same load. Seconds by the clock and of the processor (this
process and all that it started), a round; then the memory of every engine, each in a process of its
own. Needs Flower and Ray: the environment of `make test-flower`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from uuid import uuid4

# before Ray is imported, which reads it then: nothing listens beyond loopback, nothing is told
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_ADDRESS"] = "local"  # Flower would join any cluster that this machine has
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["PYTHONPATH"] = str(Path(__file__).parent)  # workers find this file

import numpy as np
import torch
from torch import nn

from fedstep.data.federation import Federation
from fedstep.data.parts import Parts
from fedstep.data.plan import Plan
from fedstep.execute import Cohort, Processes, Sequential, Store, Task
from fedstep.execute.base import Executor
from fedstep.execute.heap import trim
from fedstep.models.module import ModuleModel
from fedstep.run.simulate import Simulation
from fedstep.spec import build
from machine import machine, write

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")
COHORTS = (1, 10, 100, 1000)
ENGINES = {
    "overhead": ["alone", "processes", "ray", "LocalGrid", "simulation"],
    "population": ["alone", "ray"],
    "memory": ["alone", "cohort", "processes", "ray"],
}
POPULATION = 1000
METHOD = "fedavg(step=0.1)"
PLAN = Plan(batch=2, steps=1)


def net(dim: int = 20) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(dim, 4)


def samples(client: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(client)
    x = torch.randn(2, 20, generator=generator)
    return x, torch.randint(4, (2,), generator=generator)


def make(context):
    number = int(context.node_config["partition-id"])
    return net(), {number: samples(number)}


def family() -> list[int]:
    """This process and all that it started."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return sorted(found)
        found |= more


def cpu_seconds() -> float:
    total = 0
    for pid in family():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        # own and of children that have ended
        total += sum(int(fields[place]) for place in (11, 12, 13, 14))
    return total / TICKS


def memory_mb(pid: int, kinds: tuple[str, ...] = ("Pss",)) -> float:
    """Memory that is a process's alone, and its share of what it has in common."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    total = 0
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name in kinds:
            total += int(value.split()[0])
    return total / 1024


def all_mb() -> float:
    return sum(map(memory_mb, family()))


def all_but_files_mb() -> float:
    """Without pages of files (libraries, mapped data), which the system may drop and read again."""
    return sum(memory_mb(pid, ("Pss_Anon", "Pss_Shmem")) for pid in family())


class Peak:
    """The largest value of a figure while this is entered."""

    def __init__(self, figure: Callable[[], float], every: float = 0.02) -> None:
        self.figure = figure
        self.every = every
        self.most = 0.0
        self._done = threading.Event()

    def __enter__(self) -> Peak:
        self.before = self.most = self.figure()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(self.every):
            self.most = max(self.most, self.figure())


def token() -> None:
    """A token for Ray, in a folder of its own."""
    path = Path(tempfile.mkdtemp(prefix="fedstep-far-")) / "token"
    path.write_text(uuid4().hex * 2)
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)


def simulated(executor: Executor, per_round: int, rounds: int) -> Iterator[None]:
    """Rounds of a simulation, one at a time."""
    task = Task(build(METHOD), ModuleModel(net()), everyone(), PLAN, 0)
    simulation = Simulation(task, per_round, executor=executor)
    for _ in simulation.run(simulation.begin(rounds), Store(), rounds):
        yield


_EVERYONE: list[Federation] = []


def everyone() -> Federation:
    if not _EVERYONE:
        _EVERYONE.append(Federation.of([samples(k) for k in range(POPULATION)]))
    return _EVERYONE[0]


def over_flower(grid, per_round: int, rounds: int, mark: Callable[[], None]) -> None:
    """Rounds over a grid; `mark` is called before the first and after every one."""
    from fedstep.flower import FedStep

    strategy = FedStep(
        METHOD,
        net(),
        per_round=per_round,
        batch=PLAN.batch,
        local_steps=PLAN.steps,
        guard=False,
        fraction_evaluate=0.0,
    )
    strategy.start(grid, num_rounds=rounds, evaluate_fn=lambda round, arrays: mark())


class Clock:
    """Seconds and CPU seconds between marks."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def mark(self) -> None:
        self.wall.append(time.perf_counter())
        self.cpu.append(cpu_seconds())

    def costs(self) -> tuple[float, float]:
        """Of a round, without the first, which hires and connects."""
        rounds = len(self.wall) - 2
        return (self.wall[-1] - self.wall[1]) / rounds, (self.cpu[-1] - self.cpu[1]) / rounds


def measure(engines: dict[str, Callable[[int, int, Clock], None]], options) -> Iterator[dict]:
    for repetition in range(options.repetitions):
        for per_round in options.cohorts or COHORTS:
            for name, engine in engines.items():
                clock = Clock()
                engine(per_round, options.rounds, clock)
                wall, cpu = clock.costs()
                print(
                    f"{name:12} {per_round:5} clients: {wall:8.3f} s, CPU {cpu:8.3f} s", flush=True
                )
                row = {"engine": name, "clients": per_round, "wall": wall, "cpu": cpu}
                yield {**row, "repetition": repetition}


def executed(executor: Executor) -> Callable[[int, int, Clock], None]:
    def engine(per_round: int, rounds: int, clock: Clock) -> None:
        clock.mark()
        for _ in simulated(executor, per_round, rounds):
            clock.mark()

    return engine


def carried(grid) -> Callable[[int, int, Clock], None]:
    return lambda per_round, rounds, clock: over_flower(grid, per_round, rounds, clock.mark)


def overhead(options) -> None:
    """The engines that were asked for; with Flower's simulation all of them run within it."""
    import far  # by its name: what workers unpickle

    if "simulation" not in options.engines:
        finish_overhead(options, engines_of(options.engines))
        return
    from flwr.serverapp import ServerApp
    from flwr.simulation import run_simulation

    from fedstep.flower import client_app

    token()
    app = ServerApp()

    @app.main()
    def main(grid, context):
        # the simulation's Ray is the executor's too, and comes up beside this
        await_ray()
        engines = {**engines_of(options.engines), "simulation": carried(grid)}
        finish_overhead(options, engines)

    config = {
        "init_args": {"num_cpus": 5, "include_dashboard": False},
        "client_resources": {"num_cpus": 2, "num_gpus": 0.0},
    }
    run_simulation(app, client_app(far.make), POPULATION, backend_config=config)


def await_ray(patience: float = 300.0) -> None:
    from fedstep.execute.ray_session import ray

    end = time.monotonic() + patience
    while not ray.is_initialized():
        if time.monotonic() > end:
            sys.exit(f"Flower's simulation has not started Ray in {patience:g} s")
        time.sleep(0.5)


def engines_of(names: list[str]) -> dict[str, Callable[[int, int, Clock], None]]:
    """All but Flower's simulation, which has to be running."""
    import far

    engines = {}
    if "alone" in names:
        engines["alone"] = executed(Sequential())
    if "processes" in names:
        engines["processes"] = executed(Processes(Sequential(), 2))
    if "ray" in names:
        from fedstep.execute.ray import Ray

        engines["ray"] = executed(Ray(Sequential(), workers=2, cpus=0.5))
    if "LocalGrid" in names:
        from fedstep.flower import LocalGrid, client_app

        engines["LocalGrid"] = carried(LocalGrid(client_app(far.make), POPULATION))
    return engines


def finish_overhead(options, engines: dict[str, Callable[[int, int, Clock], None]]) -> None:
    rows = []
    if options.peak:
        with Peak(all_mb, every=0.5) as peak:
            rows += measure(engines, options)
        save(options, "far-overhead", {"rows": rows, "peak_mb": peak.most}, "")
        return
    # kept after every measurement: the largest ones take long
    for row in measure(engines, options):
        rows.append(row)
        save(options, "far-overhead", {"rows": rows}, table(rows))


def overhead_and_memory(options) -> None:
    """The interleaved measurement, then every engine alone for its memory."""
    overhead(options)
    if options.peak:
        return
    rows = json.loads((options.out / "far-overhead.json").read_text())["rows"]
    peaks = {name: peak_of(name) for name in options.engines}
    save(options, "far-overhead", {"rows": rows, "peaks_mb": peaks}, table(rows, peaks))


def peak_of(engine: str) -> float:
    """Most memory of all processes of an engine, in three rounds of 100 clients."""
    with tempfile.TemporaryDirectory(prefix="fedstep-far-") as folder:
        command = [sys.executable, __file__, "overhead", "--peak", "--engines", engine]
        command += ["--cohorts", "100", "--repetitions", "1", "--rounds", "3", "--out", folder]
        subprocess.run(command, check=True, timeout=900)
        return json.loads((Path(folder) / "far-overhead.json").read_text())["peak_mb"]


def table(rows: list[dict], peaks: dict[str, float] | None = None) -> str:
    """Medians by engine and cohort: seconds a round by the clock and of the processor."""
    heads = [f"{n:,} clients" for n in COHORTS]
    if peaks:
        heads.append("memory, 100 clients")
    lines = ["| engine | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
    for name in dict.fromkeys(row["engine"] for row in rows):
        cells = []
        for clients in COHORTS:
            own = [r for r in rows if r["engine"] == name and r["clients"] == clients]
            if not own:
                cells.append("")
                continue
            wall = median(r["wall"] for r in own)
            cpu = median(r["cpu"] for r in own)
            cells.append(f"{wall:.3f} s, CPU {cpu:.3f} s")
        if peaks:
            cells.append(f"{peaks[name]:.0f} MB")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_data(clients: int) -> None:
    """Synthetic clients of two samples each, as files: samples, one index array and offsets."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2 * clients, 20, generator=generator)
    y = torch.randint(4, (2 * clients,), generator=generator)
    offsets = torch.arange(0, 2 * clients + 1, 2)
    arrays = {"x": x, "y": y, "samples": torch.arange(2 * clients), "offsets": offsets}
    for name, array in arrays.items():
        array.numpy().tofile(data_file(clients, name))


def data_file(clients: int, name: str) -> str:
    return f"{os.environ['FEDSTEP_FAR_DATA']}/{clients}-{name}"


@dataclass(frozen=True)
class FileRows:
    """A Transform from sample numbers to samples, which are read from the files a batch at a time.

    A map of the files would do too. But the system maps up to 2 MB around every sample that is read
    of one, and all of it counts as memory of the process until somebody else needs it.
    """

    clients: int

    def __call__(self, fields, generator) -> tuple[torch.Tensor, torch.Tensor]:
        (numbers,) = fields
        inputs = file_rows(data_file(self.clients, "x"), numbers, np.float32, 20)
        targets = file_rows(data_file(self.clients, "y"), numbers, np.int64, 1)
        return torch.from_numpy(inputs), torch.from_numpy(targets[:, 0])


def file_rows(path: str, numbers: torch.Tensor, dtype: type, width: int) -> np.ndarray:
    """Some rows of a table in a file."""
    rows = np.empty((len(numbers), width), dtype)
    size = rows[0].nbytes
    with open(path, "rb", buffering=0) as file:
        for place, number in enumerate(numbers.tolist()):
            rows[place] = np.frombuffer(os.pread(file.fileno(), size, number * size), dtype)
    return rows


def federation_of(clients: int) -> Federation:
    """Numbers of samples, mapped; the samples themselves are read when their batch comes."""

    def mapped(name: str, size: int) -> torch.Tensor:
        return torch.from_file(data_file(clients, name), size=size, dtype=torch.int64)

    samples = mapped("samples", 2 * clients)
    parts = Parts(samples, mapped("offsets", clients + 1))
    return Federation((samples,), parts, transform=FileRows(clients))


def load_small() -> Federation:
    return federation_of(3550)


def load_large() -> Federation:
    return federation_of(1_000_000)


def population(options) -> None:
    """A round of 20 clients of very many, the data loaded where the workers are."""
    with tempfile.TemporaryDirectory(prefix="fedstep-far-") as folder:
        os.environ["FEDSTEP_FAR_DATA"] = folder  # the workers inherit it
        for clients in (3550, 1_000_000):
            # elsewhere: what it takes to make the data is not what it takes to use them
            with ProcessPoolExecutor(1, get_context("spawn")) as elsewhere:
                elsewhere.submit(write_data, clients).result()
        measure_population(options)


def measure_population(options) -> None:
    import far

    rows = []
    for clients, load in ((3550, far.load_small), (1_000_000, far.load_large)):
        for name in options.engines:
            executor: Executor = Sequential()
            if name == "ray":
                from fedstep.execute.ray import Ray

                executor = Ray(Sequential(), workers=2, load=load)
            begun = time.perf_counter()
            all_of_it = Peak(all_mb, every=0.2)
            without_files = Peak(all_but_files_mb, every=0.2)
            with all_of_it, without_files, executor:
                task = Task(build(METHOD), ModuleModel(net()), load(), PLAN, 0)
                simulation = Simulation(task, 20, executor=executor)
                walls = [time.perf_counter()]
                for _ in simulation.run(simulation.begin(6), Store(), 6):
                    walls.append(time.perf_counter())
            gaps = [after - before for before, after in pairwise(walls)]
            row = {
                "clients": clients,
                "engine": name,
                "start": walls[1] - begun,
                "round": sum(gaps[1:]) / len(gaps[1:]),
                "peak_mb": all_of_it.most,
                "without_files_mb": without_files.most,
            }
            rows.append(row)
            print(row, flush=True)
    lines = [
        "| clients | engine | first round s | a round of 20 s | all processes, MB "
        "| without pages of files, MB |"
    ]
    lines.append("|---:|---|---:|---:|---:|---:|")
    for row in rows:
        lines.append(
            f"| {row['clients']:,} | {row['engine']} | {row['start']:.1f} | {row['round']:.3f} "
            f"| {row['peak_mb']:.0f} | {row['without_files_mb']:.0f} |"
        )
    save(options, "far-population", {"rows": rows}, "\n".join(lines) + "\n")


def resident_mb(kind: str) -> float:
    """Memory of this process of one kind: `RssAnon` is its own, `RssShmem` what it maps of others."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) / 1024
    sys.exit(f"this system does not tell {kind}")


def memory(options) -> None:
    """200 clients with a model of 10 MB: how much the driver grows while their deltas come in."""
    rows = []
    for name in options.engines:
        for cohort in options.cohorts or (20, 200):
            # a process of its own: nobody inherits what another one left on its heap
            with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
                rows.append(fresh.submit(driver_growth, name, cohort).result())
            print(rows[-1], flush=True)
    lines = [
        "| engine | clients of 10 MB | driver before, MB | peak growth, MB | of the store, MB |"
    ]
    lines.append("|---|---:|---:|---:|---:|")
    for row in rows:
        lines.append(
            f"| {row['engine']} | {row['clients']} | {row['before_mb']:.0f} "
            f"| {row['growth_mb']:.0f} | {row['store_mb']:.0f} |"
        )
    lines.append("")
    lines.append(
        "Growth: anonymous memory of the driver. Of the store: pages that it shares with the"
    )
    lines.append(
        "workers (the broadcast, Ray's object store) and has touched; not part of the growth."
    )
    save(options, "far-memory", {"rows": rows}, "\n".join(lines) + "\n")


def driver_growth(name: str, cohort: int) -> dict:
    """Two rounds, after one of two clients, which hires, connects and lays the model down."""
    torch.set_num_threads(1)
    wide = nn.Linear(20, 119_048)  # 2.5 million parameters
    clients = [(torch.randn(1, 20), torch.randint(4, (1,))) for _ in range(200)]
    plan = Plan(batch=1, steps=1)
    task = Task(build(METHOD), ModuleModel(wide), Federation.of(clients), plan, 0)
    with crew_named(name) as executor:
        run_rounds(Simulation(task, 2, executor=executor), 1)
        # nor are holes that the first round left room for what is measured
        gc.collect()
        trim()
        own = Peak(partial(resident_mb, "RssAnon"), every=0.002)
        store = Peak(partial(resident_mb, "RssShmem"))
        with own, store:
            run_rounds(Simulation(task, cohort, executor=executor), 2)
    row = {"engine": name, "clients": cohort, "before_mb": own.before}
    return {**row, "growth_mb": own.most - own.before, "store_mb": store.most}


def run_rounds(simulation: Simulation, rounds: int) -> None:
    for _ in simulation.run(simulation.begin(rounds), Store(), rounds):
        pass


def crew_named(name: str) -> Executor:
    here = {"alone": Sequential(), "cohort": Cohort(), "processes": Processes(Sequential(), 2)}
    if name in here:
        return here[name]
    if name != "ray":
        sys.exit(f"memory is measured of {', '.join(here)} and ray, not of {name}")
    from fedstep.execute.ray import Ray

    return Ray(Sequential(), workers=2)


def save(options, name: str, data: dict, text: str) -> None:
    about = {**machine(), "torch": torch.__version__, "load": os.getloadavg()[0]}
    head = ", ".join(f"{key} {value}" for key, value in about.items())
    command = f"`python benchmarks/far.py {' '.join(sys.argv[1:])}`"
    write(options.out / name, {**about, **data}, f"{command}; {head}\n\n{text}")
    print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=("overhead", "population", "memory"))
    parser.add_argument(
        "--rounds", type=int, default=3, help="a measurement; the first is not counted"
    )
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--cohorts", type=int, nargs="*", help="clients a round")
    parser.add_argument("--engines", nargs="*", help="some of those that the measurement knows")
    parser.add_argument("--peak", action="store_true", help="overhead: look at memory meanwhile")
    parser.add_argument("--out", type=Path, default=HERE / "results")
    options = parser.parse_args()
    if options.engines is None:
        options.engines = ENGINES[options.what]
    torch.set_num_threads(1)
    {"overhead": overhead_and_memory, "population": population, "memory": memory}[options.what](
        options
    )


if __name__ == "__main__":
    main()
