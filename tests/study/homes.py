"""Results folders made of formulas and a seeded generator: no run behind them."""

from __future__ import annotations

import json

import numpy as np

from fedstep.study.study_file import read_study

SMALL = (
    # label, spec, grid, final accuracy, oscillation, server step > 1
    ("FedAvg", "fedavg(step={step})", {"step": [0.01, 0.1]}, 0.70, 0.004, False),
    ("FedSLS", "fedsls()", {}, 0.80, 0.006, False),
    ("FedExpSLS", "fedexpsls()", {}, 0.82, 0.03, True),
)


def toml(methods=SMALL, rounds=20, seeds=(0, 1, 2, 3, 4), every=2, published=None, varied=None):
    head = f'title = "A study"\ntext = "For tests."\ndata = "synthetic"\nmodel = "linear"\nrounds = {rounds}\n'
    head += f"every = {every}\nseeds = {list(seeds)}\n[tuning]\nrounds = 10\n"
    for label, spec, grid, *_ in methods:
        head += f'[[methods]]\nlabel = "{label}"\nspec = "{spec}"\n'
        head += "".join(f"grid.{k} = {v}\n" for k, v in grid.items())
        head += "".join(
            f"published.{k} = {v}\n" for k, v in (published or {}).get(label, {}).items()
        )
        head += "".join(f"varied.{k} = {v}\n" for k, v in (varied or {}).get(label, {}).items())
    return head


def rows(method, seed, rounds, every):
    """A run that rises to the method's accuracy."""
    label, spec, _, top, swing, extrapolating = method
    g = np.random.default_rng([seed, *label.encode()])
    searching = "sls" in spec
    level, made = g.normal(0, 0.005), []
    for t in range(1, rounds + 1):
        due = t % every == 0 or t == rounds
        eta = float(1 + g.pareto(2.0) * 2) if extrapolating else 1.0
        rise = 1 - np.exp(-6 * t / rounds)
        clean = 0.1 + (top + level - 0.1) * rise
        last = float(clean - swing * np.log(eta) + g.normal(0, 0.003))
        mean = float(clean + g.normal(0, 0.002)) if extrapolating else last
        loss = float(
            2.3 * np.exp(-4 * t / rounds) + 0.3 + abs(g.normal(0, 0.01)) - 0.3 * (top - 0.7)
        )
        steps = (
            np.quantile(0.05 + 0.4 * g.random(50) * (1 + rise), [0, 0.25, 0.5, 0.75, 1])
            if searching
            else [0.1] * 5
        )
        trials = float(1.3 + g.random() * 0.4) if searching else 0.0
        made.append(
            {
                "round": t,
                "loss": loss * 1.1,
                "train_loss": loss if due else None,
                "test_loss": loss * 1.2 if due else None,
                "accuracy": mean if due else None,
                "heldout_accuracy": mean - 0.01 if due else None,
                "last_accuracy": last if due else None,
                "eta_g": eta,
                "steps": [float(s) for s in steps],
                "trials": trials,
                "failed": int(g.integers(0, 3)) if searching else 0,
                "forwards": int(400 * (1 + trials)),
                "backwards": 400,
                "bytes_up": 2_000_000,
                "bytes_down": 2_000_000,
                "seconds": float(0.3 + g.random() * 0.01),
                "clients": 20,
                "rejected": 0,
            }
        )
    return made


def make(
    home,
    methods=SMALL,
    rounds=20,
    seeds=(0, 1, 2, 3, 4),
    every=2,
    published=None,
    varied=None,
    metrics=None,
):
    """A finished study; returns it and the rows by label and seed."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "study.toml").write_text(toml(methods, rounds, seeds, every, published, varied))
    (home / "scale.txt").write_text("default\n")
    study = read_study(home / "study.toml")
    choices = []
    for method in study.methods:
        points = method.candidates()
        scores = {p: 0.6 + 0.05 * i for i, p in enumerate(points)} if method.grid else {}
        if len(scores) > 2:
            scores[points[-1]] = None  # diverged
        best = max(
            (p for p, s in scores.items() if s is not None),
            key=lambda p: scores[p],
            default=method.spec,
        )
        choices.append(
            {"label": method.label, "spec": best, "rounds": 10 * len(scores), "scores": scores}
        )
    (home / "tuning.json").write_text(json.dumps(choices))
    jobs = study.runs({c["label"]: c["spec"] for c in choices})
    every_row = {}
    for k, job in enumerate(jobs):
        method = methods[k % len(methods)]
        made = rows(method, job.seed, rounds, every)
        every_row[method[0], job.seed] = made
        folder = home / "runs" / job.digest
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rounds.jsonl").write_text("".join(json.dumps(r) + "\n" for r in made))
        about = {
            "digest": job.digest,
            "seed": job.seed,
            "method": job.method,
            "partition": f"{job.seed:064x}",
        }
        about |= {
            "clients": 100,
            "samples": 50_000,
            "versions": {"fedstep": "0.1.0", "torch": "2.4.0"},
        }
        if metrics is not None:
            about["metrics"] = metrics
        (folder / "spec.json").write_text(json.dumps(about))
        (folder / "done.json").write_text(json.dumps({"rounds": rounds}))
    return study, every_row


def folder_of(home, label, seed):
    """The folder of one run."""
    choices = {c["label"]: c["spec"] for c in json.loads((home / "tuning.json").read_text())}
    study = read_study(home / "study.toml")
    names = [m.label for m in study.methods]
    jobs = study.runs(choices)
    return home / "runs" / jobs[study.seeds.index(seed) * len(names) + names.index(label)].digest
