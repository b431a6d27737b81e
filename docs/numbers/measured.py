"""Tables of what the programs under benchmarks/ have measured, from the files they have written.

Each program makes its own table; here it is only read. Nothing is run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from pages import MEASURED, ROOT, Block

BENCHMARKS = ROOT / "benchmarks"


def blocks() -> Iterator[Block]:
    """Problems of the suite, attacks, deaths of processes, overheads, optimisers."""
    yield Block("docs/pace.md", "suite", partial(suite_table, "PROBLEMS"))
    yield Block("docs/pace.md", "held-out", partial(suite_table, "HELD_OUT"))
    yield Block("docs/trust.md", "honest", honest_table)
    for place, name in enumerate(("attacks", "messages", "further attacks")):
        yield Block("docs/trust.md", name, partial(attack_table, place))
    yield Block("docs/flower.md", "kills", kill_table)
    yield Block("docs/cluster.md", "overhead", overhead_table)
    yield Block("docs/optim.md", "optimizers", optimizer_table)


@cache
def program(path: str) -> ModuleType:
    """A program of benchmarks/, as a module; several of them are called run.py."""
    file = BENCHMARKS / path
    name = "benchmark_" + path.removesuffix(".py").replace("/", "_")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # dataclasses look their module up
    sys.modules[name] = module
    # some tell Ray and their workers where to look: that is not for us
    with neighbours_of(file), patch.dict(os.environ):
        spec.loader.exec_module(module)
    return module


@contextmanager
def neighbours_of(file: Path) -> Iterator[None]:
    """Let a program import those beside it, whatever others have imported under the same names."""
    folders = [file.parent, BENCHMARKS]
    names = {path.stem for folder in folders for path in folder.glob("*.py")}
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    sys.path[:0] = [str(folder) for folder in folders]
    try:
        yield
    finally:
        del sys.path[: len(folders)]
        for name in names:
            sys.modules.pop(name, None)
        sys.modules.update(others)


def measured(name: str) -> Any:
    """A file of benchmarks/results."""
    return json.loads((MEASURED / name).read_text())


def suite_table(problems: str) -> str:
    """Small problems, tuned rivals and the default; those that were not run are left out."""
    suite = program("suite/run.py")
    results = suite.Results(seeds=3, may_run=False)
    lines = suite.table_head(["fedpace"])
    for problem in getattr(suite, problems):
        try:
            lines.append(suite.table_line(results, ["fedpace"], problem))
        except suite.NotRun:
            continue
    return "\n".join(lines) + "\n"


def honest_table() -> str:
    """What the guard costs cohorts in which nobody is hostile."""
    honest = program("honest.py")
    return honest.table(honest.kept()) + "\n"


def attack_table(place: int) -> str:
    """One of the tables of benchmarks/attacks.py, by its place there."""
    attacks = program("attacks.py")
    return attacks.table(*attacks.TABLES[place], attacks.finished(fresh=False)) + "\n"


def kill_table() -> str:
    """Processes that were killed, and whether runs ended with the same bits."""
    return program("kills/run.py").table() + "\n"


def overhead_table() -> str:
    """What engines cost beside the work."""
    found = measured("far-overhead.json")
    return program("far.py").table(found["rows"], found["peaks_mb"])


def optimizer_table() -> str:
    """Line searches beside optimisers of torch."""
    return program("optimizers.py").table(measured("optimizers.json"))
