"""A profile accounts for the time of a run and changes nothing in it."""

from __future__ import annotations

import json
from itertools import count
from typing import get_args

import pytest

from fedstep.analysis.profile import method_profiles
from fedstep.execute.profiler import Kind
from fedstep.run.profile import profile_of
from fedstep.study.kept import folder_of
from fedstep.study.plan import Job, Setting
from fedstep.study.pool import run_all


def job(method: str, model: str = "mlp(inputs=40, hidden=8, classes=10)") -> Job:
    return Job(Setting("synthetic", model, "Iid(clients=6)", 6, 4, 3, None, 10, 2), method, 3)


@pytest.fixture
def ticks(monkeypatch):
    """A clock that goes on by one whenever it is read, here and in workers, which are forked.

    So no outcome hangs on how busy the machine is.
    """
    clock = count()
    for module in ("execute.profiler", "study.work"):
        monkeypatch.setattr(f"fedstep.{module}.perf_counter", lambda: float(next(clock)))


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "model", ["mlp(inputs=40, hidden=8, classes=10)", "logistic(inputs=40, classes=10)"]
)
def test_a_profiled_run_has_the_same_bits_and_adds_up(tmp_path, workers, model, ticks):
    jobs = [job("fedsls", model)]
    run_all(jobs, ["a"], tmp_path / "plain", None)
    run_all(jobs, ["a"], tmp_path / "timed", None, workers, profile=True)
    ends = [
        (folder_of(jobs[0], tmp_path / n) / "model.safetensors").read_bytes()
        for n in ("plain", "timed")
    ]
    assert ends[0] == ends[1]
    profile = json.loads((folder_of(jobs[0], tmp_path / "timed") / "profile.json").read_text())
    seconds = profile["seconds"]
    assert all(
        seconds[kind] > 0
        for kind in ("data", "forward", "backward", "trials", "update", "evaluation")
    )
    if workers == 1:
        # charges never overlap, so they and the rest are the whole, to the tick
        assert seconds["rest"] > 0
        assert sum(seconds.values()) == profile["wall"]
    (method,) = method_profiles(jobs, ["a"], tmp_path / "timed")
    assert method.label == "a"
    assert method.milliseconds == pytest.approx(1000 * profile["wall"] / 6)
    assert sum(method.shares.values()) == pytest.approx(1)


def test_constant_steps_make_no_trials(tmp_path):
    run_all([job("fedavg")], ["a"], tmp_path, None, profile=True)
    (method,) = method_profiles([job("fedavg")], ["a"], tmp_path)
    assert method.shares["trials"] == 0
    assert method.shares["backward"] > 0


def test_runs_without_a_profile_are_left_out(tmp_path):
    run_all([job("fedavg")], ["a"], tmp_path, None)
    assert method_profiles([job("fedavg")], ["a"], tmp_path) == []


def test_rest_is_what_nobody_counted():
    profile = profile_of({"data": 1.0, "evaluation": 0.5}, 2.0, 4, 1)
    assert profile["seconds"]["rest"] == pytest.approx(0.5)
    profile = profile_of({"data": 3.0, "evaluation": 0.5}, 2.5, 4, 2)
    assert profile["seconds"]["rest"] == pytest.approx(1.0)
    assert set(get_args(Kind)) < set(profile_of({}, 1.0, 1, 1)["seconds"])
