"""Metrics are sums over samples: right values, any cut, any task, and rows old and new."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from sklearn import metrics as reference
from torch import nn
from torch.nn import functional

import fedstep
from fedstep.run.columns import ACCURACY, MetricInfo, metric_infos
from fedstep.run.evaluate import evaluate
from fedstep.run.metrics import (
    AUROC,
    R2,
    Accuracy,
    MacroF1,
    MeanAbsoluteError,
    MeanOf,
    MeanSquaredError,
    Perplexity,
    TopKAccuracy,
    default_metrics,
    merge,
    metrics_of,
    named_metric,
)
from fedstep.run.record import RoundReport

CLASSES = 5
CLASS_METRICS = (Accuracy(), TopKAccuracy(2), MacroF1(), Perplexity())
NUMBER_METRICS = (MeanSquaredError(), MeanAbsoluteError(), R2())


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def labels(*shape, classes=CLASSES, seed=1):
    return torch.randint(classes, shape, generator=torch.Generator().manual_seed(seed))


def task_of(metric):
    """Predictions and targets that a metric can be taken of."""
    if metric in CLASS_METRICS:
        return draw(60, CLASSES), labels(60)
    if metric in NUMBER_METRICS:
        return draw(60, 3), draw(60, 3, seed=2)
    return draw(60), labels(60, classes=2)


ALL = (*CLASS_METRICS, *NUMBER_METRICS, AUROC(), MeanOf(lambda p, t: (p - t) ** 2, label="gap"))
every_metric = pytest.mark.parametrize("metric", ALL, ids=lambda m: m.name)


def value(metric, predictions, targets, weights=None):
    return metric.value(metric.statistics(predictions, targets, weights))


def test_class_metrics_are_those_of_scikit_learn():
    scores, truth = draw(200, CLASSES), labels(200)
    guesses = scores.argmax(1)
    everything = list(range(CLASSES))
    expected = {
        "accuracy": reference.accuracy_score(truth, guesses),
        "top_2": reference.top_k_accuracy_score(truth, scores, k=2, labels=everything),
        "macro_f1": reference.f1_score(truth, guesses, average="macro"),
        "perplexity": math.exp(reference.log_loss(truth, scores.double().softmax(1))),
    }
    for metric in CLASS_METRICS:
        assert value(metric, scores, truth) == pytest.approx(expected[metric.name], rel=1e-12)


def test_macro_f1_leaves_out_classes_that_do_not_occur():
    scores = functional.one_hot(torch.tensor([0, 1, 1]), 7).double()
    truth = torch.tensor([0, 1, 0])
    expected = reference.f1_score(truth, scores.argmax(1), average="macro")  # of classes 0 and 1
    assert value(MacroF1(), scores, truth) == pytest.approx(expected)


def test_number_metrics_are_those_of_scikit_learn():
    guesses, truth = draw(200, 3), draw(200, 3, seed=2)
    expected = {
        "mean_squared_error": reference.mean_squared_error(truth, guesses),
        "mean_absolute_error": reference.mean_absolute_error(truth, guesses),
        "r2": reference.r2_score(truth.double(), guesses.double()),
    }
    for metric in NUMBER_METRICS:
        assert value(metric, guesses, truth) == pytest.approx(expected[metric.name], rel=1e-6)


def test_one_output_for_targets_without_an_axis_is_not_broadcast():
    guesses, truth = draw(30, 1), draw(30, seed=2)
    expected = float(((guesses[:, 0] - truth) ** 2).double().mean())
    assert value(MeanSquaredError(), guesses, truth) == pytest.approx(expected, rel=1e-6)


def test_targets_that_do_not_vary_have_no_r2():
    truth = torch.full((50,), 0.1)
    assert math.isnan(value(R2(), draw(50), truth))
    both = torch.stack([truth, draw(50, seed=2)], 1)
    alone = value(R2(), draw(50, 2)[:, 1], both[:, 1])
    assert value(R2(), draw(50, 2), both) == pytest.approx(alone)


def test_auroc_is_that_of_scikit_learn_within_its_resolution():
    truth = labels(400, classes=2)
    scores = draw(400) + truth
    expected = reference.roc_auc_score(truth, scores)
    fine = value(AUROC(bins=2**16), scores, truth)
    coarse = value(AUROC(bins=64), scores, truth)
    assert fine == pytest.approx(expected, abs=1e-4)
    assert coarse == pytest.approx(expected, abs=0.02)
    two = torch.stack([torch.zeros(400), scores], 1)
    assert value(AUROC(bins=2**16), two, truth) == fine


def test_auroc_counts_ties_as_one_half():
    scores = torch.tensor([0.3, 0.3, 0.3, 2.0, -1.0])
    truth = torch.tensor([1, 0, 1, 1, 0])
    # pairs (positive, negative): two ties at 0.3, four in the right order: (4 + 2 / 2) / 6
    assert value(AUROC(), scores, truth) == pytest.approx(5 / 6)


def test_auroc_of_scores_that_are_not_finite():
    truth = torch.tensor([1, 0, 1, 0])
    ends = torch.tensor([math.inf, -math.inf, 1.0, 0.0])
    assert value(AUROC(), ends, truth) == 1.0
    assert math.isnan(value(AUROC(), torch.tensor([math.nan, 0.0, 1.0, 0.0]), truth))


def test_auroc_of_one_class_is_unknown_and_other_targets_are_refused():
    assert math.isnan(value(AUROC(), draw(4), torch.ones(4)))
    with pytest.raises(fedstep.InputError, match="auroc: a target is 2; give 0 and 1"):
        value(AUROC(), draw(3), torch.tensor([0, 1, 2]))


def test_ties_of_top_k_go_to_the_lower_class():
    scores = torch.zeros(3, 4)
    assert value(TopKAccuracy(2), scores, torch.tensor([0, 1, 2])) == pytest.approx(2 / 3)


def test_a_diverged_model_hits_nothing_in_top_k():
    assert value(TopKAccuracy(2), torch.full((5, 4), math.nan), labels(5, classes=4)) == 0.0


@every_metric
@pytest.mark.parametrize("chunk", [1, 7, 59, 60])
def test_the_cut_into_chunks_does_not_matter(metric, chunk):
    predictions, targets = task_of(metric)
    sums = {}
    for first in range(0, 60, chunk):
        part = slice(first, first + chunk)
        sums = merge(sums, metric.statistics(predictions[part], targets[part]))
    assert metric.value(sums) == pytest.approx(value(metric, predictions, targets), rel=1e-12)


@every_metric
def test_statistics_are_float64_and_the_same_every_time(metric):
    once, again = (metric.statistics(*task_of(metric)) for _ in range(2))
    assert {t.dtype for t in once.values()} == {torch.float64}
    assert all(torch.equal(once[name], again[name]) for name in once)


@every_metric
def test_no_samples_give_no_number(metric):
    predictions, targets = task_of(metric)
    assert math.isnan(metric.value({}))
    assert math.isnan(value(metric, predictions[:0], targets[:0]))


@every_metric
def test_a_weight_of_zero_is_absence_even_with_nan(metric):
    predictions, targets = task_of(metric)
    weights = torch.ones(60)
    weights[40:] = 0
    alone = value(metric, predictions[:40], targets[:40])
    spoilt = predictions.clone()
    if metric.name not in ("macro_f1", "auroc"):
        spoilt[40:] = math.nan
    assert value(metric, spoilt, targets, weights) == pytest.approx(alone, rel=1e-12)


@every_metric
def test_a_weight_of_two_is_a_sample_twice(metric):
    predictions, targets = task_of(metric)
    weights = torch.ones(60)
    weights[:10] = 2
    twice = value(
        metric, torch.cat([predictions, predictions[:10]]), torch.cat([targets, targets[:10]])
    )
    assert value(metric, predictions, targets, weights) == pytest.approx(twice, rel=1e-12)


@pytest.mark.parametrize("metric", CLASS_METRICS, ids=lambda m: m.name)
def test_negative_labels_are_padding(metric):
    scores, truth = draw(12, CLASSES, 6), labels(12, 6)
    padded = truth.clone()
    padded[:, 4:] = -100
    alone = value(metric, scores[:, :, :4], truth[:, :4])
    assert value(metric, scores, padded) == pytest.approx(alone, rel=1e-12)
    weights = (padded >= 0).double()
    assert value(metric, scores, truth, weights) == pytest.approx(alone, rel=1e-12)


def test_weights_that_fit_no_target_are_refused():
    with pytest.raises(fedstep.InputError, match=r"weights of shape \(3,\) do not fit targets of"):
        value(Accuracy(), draw(4, CLASSES), labels(4), torch.ones(3))


def test_texts_objects_and_functions_are_metrics():
    def surprise(predictions, targets):
        return functional.cross_entropy(predictions, targets, reduction="none")

    made = metrics_of(["accuracy", "top_k(k=3)", MacroF1(), surprise])
    assert [m.name for m in made] == ["accuracy", "top_3", "macro_f1", "surprise"]
    assert made[1] == TopKAccuracy(3)
    assert named_metric("auroc(bins=16)") == AUROC(16)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["acuracy"], "unknown metric 'acuracy': did you mean accuracy?"),
        (["top_k(k=0)"], "k must be a whole number, 1 or more"),
        (["auroc(bins=1)"], "give 2 to 65536 bins"),
        (["accuracy", Accuracy()], "accuracy is named twice"),
        ("accuracy", "give a list"),
        ([Accuracy], "give a name such as 'accuracy'"),
        ([lambda p, t: p], "name its column"),
        ([MeanOf(torch.add, label="loss")], "rows have a column of that name already"),
        ([MeanOf(torch.add, label="last_one")], "mark other columns"),
        ([MeanOf(torch.add, label="a b")], "must be a word"),
    ],
)
def test_metrics_that_cannot_be_used_are_refused_in_one_line(given, message):
    with pytest.raises(fedstep.InputError, match=message):
        metrics_of(given)


def test_the_usual_metrics_follow_the_targets():
    def names(predictions, targets):
        return [m.name for m in default_metrics(predictions, targets)]

    assert names(draw(9, CLASSES), labels(9)) == ["accuracy"]
    assert names(draw(9, CLASSES, 4), labels(9, 4)) == ["accuracy", "perplexity"]
    assert names(draw(9, 1), draw(9)) == ["mean_squared_error", "r2"]
    assert names(draw(9), labels(9)) == []  # one score for classes: neither
    assert names(None, draw(9)) == []


def test_a_metric_that_does_not_fit_the_task_says_why():
    model = fedstep.ModuleModel(nn.Linear(4, 1), nn.functional.mse_loss).evaluating()
    with pytest.raises(fedstep.InputError, match=r"metric accuracy: targets are torch.float32"):
        evaluate(model, model.init(), (draw(8, 4), draw(8, 1)), metrics=[Accuracy()])


def test_a_function_that_gives_one_number_is_refused():
    with pytest.raises(fedstep.InputError, match="give one value a sample"):
        value(MeanOf(lambda p, t: p.mean(), label="mean"), draw(6), draw(6))


def test_evaluation_does_not_depend_on_the_chunk_and_takes_weights():
    torch.manual_seed(0)
    model = fedstep.ModuleModel(nn.Linear(4, CLASSES).double()).evaluating()
    fields = (draw(50, 4).double(), labels(50))
    whole = evaluate(model, model.init(), fields, metrics=CLASS_METRICS)
    for chunk in (1, 16, 49):
        cut = evaluate(model, model.init(), fields, chunk=chunk, metrics=CLASS_METRICS)
        assert cut.loss == pytest.approx(whole.loss, rel=1e-12)
        assert dict(cut.metrics) == pytest.approx(dict(whole.metrics), rel=1e-12)
    first = tuple(f[:30] for f in fields)
    weights = (torch.arange(50) < 30).double()
    part = evaluate(model, model.init(), fields, chunk=16, metrics=CLASS_METRICS, weights=weights)
    alone = evaluate(model, model.init(), first, metrics=CLASS_METRICS)
    assert dict(part.metrics) == pytest.approx(dict(alone.metrics), rel=1e-12)


def test_an_empty_test_set_gives_no_number():
    model = fedstep.ModuleModel(nn.Linear(4, 3)).evaluating()
    score = evaluate(model, model.init(), (draw(0, 4), labels(0)), metrics=[Accuracy()])
    assert math.isnan(score.loss)
    assert math.isnan(score.metrics["accuracy"])


def clients(targets):
    return [(x, targets(x)) for x in (draw(20, 4, seed=s) for s in range(3))]


def test_fit_measures_what_is_named_and_the_first_is_first(tmp_path):
    def confidence(predictions, targets):
        return predictions.softmax(1).amax(1)

    data = clients(lambda x: x.argmax(1))
    named = ["top_k(k=2)", "accuracy", confidence]
    result = fedstep.fit(
        nn.Linear(4, 4), data, rounds=2, test=data[0], metrics=named, out=tmp_path / "a"
    )
    row = result.rows[-1]
    assert list(row.test) == ["top_2", "accuracy", "confidence"]
    scores = result.model(data[0][0]).detach()
    assert row.test["confidence"] == pytest.approx(float(scores.softmax(1).amax(1).mean()))
    assert row.accuracy == row.test["accuracy"]
    settings = json.loads((tmp_path / "a/spec.json").read_text())
    assert [info.name for info in metric_infos(settings)] == list(row.test)
    assert metric_infos(settings)[0] == TopKAccuracy(2).info


def test_regression_is_measured_by_squared_error_then_r2():
    data = clients(lambda x: x.sum(1, keepdim=True))
    result = fedstep.fit(nn.Linear(4, 1), data, rounds=3, loss=nn.MSELoss(), test=data[0])
    row = result.rows[-1]
    assert list(row.test) == ["mean_squared_error", "r2"]
    assert row.test["mean_squared_error"] == pytest.approx(row.test_loss, rel=1e-5)
    assert 0.5 < row.test["r2"] <= 1
    assert math.isnan(row.accuracy)


def test_rows_come_back_from_the_disk_as_they_were():
    data = clients(lambda x: x.argmax(1))
    rows = fedstep.fit(
        nn.Linear(4, 4), data, rounds=3, test=data[0], every=2, metrics=["perplexity", "accuracy"]
    ).rows
    for row in rows:
        back = RoundReport.from_dict(json.loads(json.dumps(row.to_dict())))
        assert repr(back) == repr(row)  # NaN is not equal to itself


def test_rows_without_metrics_named_are_rows_of_the_accuracy():
    old = {"round": 3, "loss": 0.5, "accuracy": 0.8, "heldout_accuracy": None, "last_accuracy": 0.7}
    old |= {"steps": [0.1, 0.2, None, 0.3, 0.4]}
    row = RoundReport.from_dict(old)
    assert (row.accuracy, row.test, row.last) == (0.8, {"accuracy": 0.8}, {"accuracy": 0.7})
    assert math.isnan(row.heldout["accuracy"])
    assert math.isnan(row.test_loss)  # a missing column is a gap
    assert metric_infos({"digest": "an old manifest"}) == (ACCURACY,)


def test_the_accuracy_of_old_rows_is_that_of_the_metric():
    assert Accuracy().info == ACCURACY


def test_a_better_value_ranks_higher_and_no_number_lowest():
    error = MetricInfo("error", higher_is_better=False)
    assert error.rank(0.1) > error.rank(0.2) > error.rank(math.inf) >= error.rank(math.nan)
    assert ACCURACY.rank(0.2) > ACCURACY.rank(0.1) > ACCURACY.rank(np.nan)
