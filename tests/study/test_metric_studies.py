"""A study is tuned, compared and drawn by the metric it names first, in that metric's direction."""

from __future__ import annotations

import json
from dataclasses import replace

import homes
import pytest

from fedstep.analysis.compare import compare, near
from fedstep.analysis.curves import mean_band, metric_column
from fedstep.analysis.export import tidy
from fedstep.analysis.group import primary_metric
from fedstep.analysis.results import load_results
from fedstep.core.errors import InputError
from fedstep.report.verdict import verdict
from fedstep.run.columns import ACCURACY, MetricInfo
from fedstep.run.journal import Journal
from fedstep.study.kept import KeptRuns, folder_of
from fedstep.study.plan import Job, Setting
from fedstep.study.study_file import read_study
from fedstep.study.tune import best_choice, tune

ERROR = MetricInfo("mean_squared_error", higher_is_better=False)
STUDY = """
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
partition = "Iid(clients=4)"
rounds = 2
per_round = 2
steps = 2
batch = 10
every = 1
seeds = [0]
metrics = [{metrics}]
[tuning]
rounds = 2
[[methods]]
label = "FedAvg"
spec = "fedavg(step={{step}})"
grid = {{ step = [1e-6, 0.1] }}
"""


def as_errors(home):
    """The made-up study with the error 1 - accuracy in place of the accuracy."""
    described = [{"name": ERROR.name, "higher_is_better": False, "percent": False}]
    homes.make(home, metrics=described)
    for path in (home / "runs").glob("*/rounds.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            for prefix in ("", "last_", "heldout_"):
                value = row.pop(f"{prefix}accuracy")
                error = None if value is None else 1 - value
                row[prefix + ERROR.name] = error
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_metric_that_should_be_low_turns_the_comparison_round(tmp_path):
    homes.make(tmp_path / "up")
    as_errors(tmp_path / "down")
    up = compare(load_results(tmp_path / "up"))
    down = compare(load_results(tmp_path / "down"))
    assert (up.metric, down.metric) == (ACCURACY, ERROR)
    assert down.reference == up.reference
    for a, b in zip(up.methods, down.methods, strict=True):
        assert b.score.mean == pytest.approx(1 - a.score.mean)
        assert b.best.mean == pytest.approx(1 - a.best.mean)
        assert b.best_round == a.best_round
        assert b.swing == pytest.approx(a.swing)
        assert b.last.mean == pytest.approx(1 - a.last.mean)
        if a.difference is not None:
            assert b.difference.mean == pytest.approx(-a.difference.mean)


def test_costs_lead_to_the_first_value_as_low_as_the_target(tmp_path):
    homes.make(tmp_path / "up")
    as_errors(tmp_path / "down")
    up = compare(load_results(tmp_path / "up"), target=0.6)
    down = compare(load_results(tmp_path / "down"), target=0.4)
    assert [m.reach for m in down.methods] == [m.reach for m in up.methods]


def test_the_target_is_a_little_worse_than_the_best():
    assert near(0.8, ACCURACY) == pytest.approx(0.76)
    assert near(2.0, ERROR) == pytest.approx(2.1)
    assert near(-2.0, MetricInfo("r2")) == pytest.approx(-2.1)
    assert near(-2.0, ERROR) == pytest.approx(-1.9)


def test_words_and_curves_follow_the_metric(tmp_path):
    as_errors(tmp_path)
    results = load_results(tmp_path)
    assert primary_metric(results.groups) == ERROR
    said = verdict(compare(results))
    assert said.startswith("Lowest mean squared error: FedExpSLS, 0.1")
    assert "%" not in said
    curve = mean_band(results.groups[0], metric_column(ERROR))
    assert max(curve.y) < 1  # no per cent
    assert "last_mean_squared_error" in next(tidy(results))


def test_a_column_that_only_some_runs_have_is_a_gap_in_the_others(tmp_path):
    homes.make(tmp_path)
    path = homes.folder_of(tmp_path, "FedSLS", 1) / "rounds.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        del row["accuracy"], row["heldout_accuracy"], row["test_loss"]
        row["perplexity"] = 2.0
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    results = load_results(tmp_path)
    summary = compare(results).methods[1]
    assert summary.seeds == 5
    assert summary.score.mean > 0.7
    assert results.groups[1].runs[1].evaluated("accuracy") == []


def test_metrics_of_a_study_are_measured_and_the_first_one_is_tuned_by(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY.format(metrics='"perplexity", "accuracy"'))
    study = read_study(path)
    assert study.setting.metrics == ("perplexity", "accuracy")
    choices = tune(study, tmp_path / "home", None)
    scores = choices["FedAvg"].scores
    assert choices["FedAvg"].spec == min(scores, key=lambda spec: scores[spec])
    assert choices["FedAvg"].spec == "fedavg(step=0.1)"
    trial = study.trials(study.methods[0])[0]
    row = Journal(folder_of(trial, tmp_path / "home") / "rounds.jsonl").rows()[-1]
    assert row["perplexity"] > 1
    assert row["last_perplexity"] == row["perplexity"]
    assert "accuracy" in row
    assert best_choice(study, study.methods[0], KeptRuns.of(tmp_path / "home")) == choices["FedAvg"]


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ('"acuracy"', "unknown metric 'acuracy': did you mean accuracy"),
        ('"accuracy", "accuracy"', "accuracy is named twice"),
        ("3", "give a list of texts in quotes"),
    ],
)
def test_metrics_that_do_not_exist_are_refused_with_the_file(tmp_path, metrics, message):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY.format(metrics=metrics))
    with pytest.raises(InputError, match=f"mine.toml: .*{message}"):
        read_study(path)


def test_metrics_name_a_run_only_where_they_are_named():
    job = Job(Setting("synthetic", "plane", guard=False), "fedsls", 0)
    # the digest that such a run had before there were metrics
    assert job.digest == "159146630e92e255"
    named = replace(job, setting=replace(job.setting, metrics=("accuracy",)))
    assert named.digest != job.digest
