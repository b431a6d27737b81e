"""Answers to what reviewers asked, on tasks that take seconds a run.

python benchmarks/answers/run.py                     all of them; about an hour of one core
python benchmarks/answers/run.py scale sensitivity   some

Every run is kept in benchmarks/results/answers.jsonl and never made twice; `python docs/numbers
--figures` draws the figures of docs/evidence.md and writes their tables from that file alone. FedAvg and FedAdam
are tuned on test samples of seed 0, which favours them. A score is the mean of the last three rounds.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch.nn import functional

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "suite"))

from problems import Problem, digits  # noqa: E402
from questions import (  # noqa: E402
    BASE,
    DECADES,
    DEEP,
    FACTORS,
    FEDADAM,
    FEDAVG,
    FEDPACE,
    FEDSLS,
    SETTING_TASKS,
    SETTINGS,
    STEPS,
    SWEEPS,
    Question,
    built,
    halves,
    knobs,
    pretrained,
)

import fedstep  # noqa: E402
from fedstep.data import Dirichlet  # noqa: E402
from fedstep.data.federation import Federation  # noqa: E402
from fedstep.execute import Cohort  # noqa: E402

STORE = HERE.parent / "results" / "answers.jsonl"
SEEDS = 3
SERVER_STEPS = (0.00316, 0.01, 0.0316, 0.1)

Row = dict[str, Any]


class Answers:
    """What has been run, by question, place, method and seed."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, float, str, int], Row] = {}
        if STORE.exists():
            for line in STORE.read_text().splitlines():
                row = json.loads(line)
                self.rows[row["question"], row["at"], row["method"], row["seed"]] = row

    def row(self, question: str, at: float, problem: Problem, method: str, seed: int) -> Row:
        """The run, made if it is not there yet."""
        key = (question, at, method, seed)
        if key not in self.rows:
            model, clients, test = task_of(question, at, problem, seed)
            found = measured(problem, model, clients, test, method, seed)
            self.rows[key] = {
                "question": question,
                "at": at,
                "method": method,
                "seed": seed,
                **found,
            }
            with STORE.open("a") as store:
                store.write(json.dumps(self.rows[key]) + "\n")
        return self.rows[key]

    def score(self, question: str, at: float, problem: Problem, method: str, seed: int) -> float:
        score = self.row(question, at, problem, method, seed)["score"]
        if score is None:
            return -1.0  # a run that broke is as bad as can be
        return float(score)

    def seeds(self, question: str, at: float, problem: Problem, method: str) -> None:
        for seed in range(SEEDS):
            self.row(question, at, problem, method, seed)


def task_of(question: str, at: float, problem: Problem, seed: int) -> tuple[Any, Any, Any]:
    """Model, clients and test samples."""
    model, clients, test = problem.task(seed)
    if question != "start":
        return model, clients, test
    # the half that the network has not seen: a fifth of it to test, the rest dealt to clients
    _, (x, y) = halves(digits()(), seed)
    fifth = len(y) // 5
    dealt = Dirichlet(0.3, problem.clients)(y[fifth:], seed=seed).deal(x[fifth:], y[fifth:])
    if at == 1.0:
        model = pretrained(seed)
    return model, Federation.of(dealt), (x[:fifth], y[:fifth])


def measured(
    problem: Problem,
    model: Any,
    clients: Any,
    test: Any,
    method: str,
    seed: int,
) -> Row:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # steps of 1,000 are among what is tried
        result = fedstep.fit(
            model,
            clients,
            built(method),
            rounds=problem.rounds,
            per_round=problem.per_round,
            batch=problem.batch,
            local_steps=problem.steps,
            loss=functional.cross_entropy,
            test=test,
            seed=seed,
            executor=Cohort(),
            guard=False,  # methods are compared here, and nobody is hostile
            progress=False,
        )
    rows = [row.to_dict() for row in result.rows]
    curve = [row.get("accuracy") for row in rows]
    last = [math.nan if value is None else value for value in curve[-3:]]
    score = fmean(last)
    forwards = sum(row["forwards"] for row in rows)
    backwards = sum(row["backwards"] for row in rows)
    return {
        "score": _short(score),
        "gradients": round(backwards + (forwards - backwards) / 3, 1),
        "curve": [_short(value) for value in curve],
        # mean trials of a searched step, and searches that failed, round by round
        "trials": [_short(row["trials"]) for row in rows],
        "failed": [row["failed"] for row in rows],
    }


def _short(value: float | None) -> float | None:
    if value is None or math.isnan(value):
        return None
    return round(value, 4)


def best_step(answers: Answers, question: str, at: float, problem: Problem) -> str:
    """FedAvg at the step that is best on seed 0: every second one, then the neighbours."""

    def score(step: float) -> float:
        return answers.score(question, at, problem, FEDAVG.format(step=step), 0)

    coarse = max(DECADES, key=score)
    place = STEPS.index(coarse)
    near = STEPS[max(place - 1, 0) : place + 2]
    return FEDAVG.format(step=max(near, key=score))


def best_pair(answers: Answers, question: str, at: float, problem: Problem) -> str:
    """FedAdam at the steps of clients and server that are best on seed 0."""
    methods = [
        FEDADAM.format(step=step, server_step=server) for step in DECADES for server in SERVER_STEPS
    ]
    return max(methods, key=lambda method: answers.score(question, at, problem, method, 0))


def tuned_at_base(answers: Answers) -> tuple[float, float, float]:
    """The best step of FedAvg, and the best steps of FedAdam's clients and server."""

    def score(method: str) -> float:
        return answers.score("base", 1.0, BASE, method, 0)

    step = max(STEPS, key=lambda value: score(FEDAVG.format(step=value)))
    pairs = [(client, server) for client in (step / 10, step) for server in SERVER_STEPS]
    adam = max(pairs, key=lambda p: score(FEDADAM.format(step=p[0], server_step=p[1])))
    return step, adam[0], adam[1]


def sweep(answers: Answers, question: Question) -> None:
    """The methods with nothing to set, and FedAvg and FedAdam tuned on the base task and anew."""
    step, adam_step, server_step = tuned_at_base(answers)
    for point in question.points:
        place = (question.name, point.at, point.problem)
        best = best_step(answers, *place)
        at_base = FEDAVG.format(step=step)
        adam = FEDADAM.format(step=adam_step, server_step=server_step)
        best_adam = best_pair(answers, *place)
        for method in (FEDPACE, FEDSLS, at_base, best, best_adam, adam):
            answers.seeds(*place, method)
        print(question.name, point.at, flush=True)


def sensitivity(answers: Answers, factors: Sequence[float] = FACTORS[::2]) -> None:
    """Each method over four orders of magnitude of its own settings, by powers of ten."""
    for factor in factors:
        for knob in knobs(*tuned_at_base(answers)):
            method = knob.spec(knob.centre * factor)
            answers.seeds(knob.name, round(factor, 4), BASE, method)
        print("sensitivity", factor, flush=True)


def finer(answers: Answers) -> None:
    """The same between the powers of ten."""
    sensitivity(answers, FACTORS[1::2])


def settings(answers: Answers) -> None:
    """Every argument of fedpace below and above its default, one at a time."""
    for question, problem in SETTING_TASKS.items():
        for setting in SETTINGS:
            for value in setting.values:
                answers.seeds(question, 0.0, problem, setting.method(value))
            print(question, setting.name, flush=True)


def start(answers: Answers) -> None:
    """From scratch (0) and from a network that was trained before (1)."""
    for at in (0.0, 1.0):
        best = best_step(answers, "start", at, BASE)
        for method in (FEDPACE, FEDSLS, best):
            answers.seeds("start", at, BASE, method)
    print("start", flush=True)


def deep(answers: Answers) -> None:
    """Four hidden layers: how long searches last, and how many fail, as training goes on."""
    for method in (FEDPACE, FEDSLS):
        answers.seeds("deep", 4.0, DEEP, method)
    print("deep", flush=True)


def main() -> None:
    sweeps = {question.name: question for question in SWEEPS}
    others = {
        "sensitivity": sensitivity,
        "settings": settings,
        "start": start,
        "deep": deep,
        "finer": finer,
    }
    names = [*sweeps, *others]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", nargs="*", default=names, help=", ".join(names))
    given = parser.parse_args()
    torch.set_num_threads(1)
    answers = Answers()
    for name in given.questions:
        if name in sweeps:
            sweep(answers, sweeps[name])
        elif name in others:
            others[name](answers)
        else:
            parser.error(f"{name}: no such question; there are {', '.join(names)}")


if __name__ == "__main__":
    main()
