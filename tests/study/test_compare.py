"""The numbers of a comparison, against numpy and by hand."""

from __future__ import annotations

import json
from math import inf, isnan, nan, sqrt

import homes
import numpy as np
import pytest
from scipy import stats

from fedstep.analysis.compare import compare
from fedstep.analysis.results import load_results
from fedstep.analysis.statistics import T975, difference, sign_flip
from fedstep.core.errors import InputError
from fedstep.report.tables import comparison_grids, comparison_notes, markdown, rich_tables


@pytest.fixture
def home(tmp_path):
    _, rows = homes.make(tmp_path, rounds=60, every=2)
    return tmp_path, rows


def array(rows, label, key):
    """Seeds by rounds."""
    return np.array(
        [[np.nan if r[key] is None else r[key] for r in rows[label, s]] for s in range(5)]
    )


def test_a_line_agrees_with_numpy(home):
    folder, rows = home
    found = compare(load_results(folder))
    finals = {}
    for line in found.methods:
        accuracy = array(rows, line.label, "accuracy")
        seen = accuracy[:, 1::2]  # 30 evaluations
        assert not np.isnan(seen).any()
        tenth = seen[:, -3:].mean(1)
        finals[line.label] = tenth
        assert line.score.mean == pytest.approx(tenth.mean())
        assert line.score.std == pytest.approx(tenth.std(ddof=1))
        last = array(rows, line.label, "last_accuracy")[:, 1::2][:, -3:].mean(1)
        assert (line.last.mean, line.last.std) == pytest.approx((last.mean(), last.std(ddof=1)))
        assert line.best.mean == pytest.approx(seen.max(1).mean())
        assert line.best_round == np.median(2 * (seen.argmax(1) + 1))
        loss = array(rows, line.label, "train_loss")[:, -1]
        assert (line.train_loss.mean, line.train_loss.std) == pytest.approx(
            (loss.mean(), loss.std(ddof=1))
        )
        assert line.heldout.mean == pytest.approx(tenth.mean() - 0.01)
        assert line.swing == pytest.approx(seen[:, -7:].std(1, ddof=1).mean())
        trials = array(rows, line.label, "trials")
        assert line.trials == pytest.approx(trials.mean())
        assert line.failed == pytest.approx(array(rows, line.label, "failed").sum(1).mean())
    target = 0.95 * max(f.mean() for f in finals.values())
    assert found.target == pytest.approx(target)
    assert found.reference == max(finals, key=lambda label: finals[label].mean())


def test_costs_to_the_target_agree_with_numpy(home):
    folder, rows = home
    found = compare(load_results(folder), target=0.6)
    for line in found.methods:
        hit = (np.nan_to_num(array(rows, line.label, "accuracy")) >= 0.6).argmax(
            1
        )  # every run gets there
        gradients = (
            (array(rows, line.label, "forwards") + 2 * array(rows, line.label, "backwards")) / 3
        ).cumsum(1)
        assert line.reached == 5
        assert line.reach.rounds == np.median(hit + 1)
        assert line.reach.gradients == pytest.approx(np.median(gradients[range(5), hit]))
        assert line.reach.megabytes == pytest.approx(np.median(4.0 * (hit + 1)))


def test_never_counts_as_endless_in_the_median(tmp_path):
    homes.make(tmp_path, seeds=(0, 1, 2), rounds=4, every=1)
    for seed, accuracies in (
        (0, [0.1, 0.9, 0.9, 0.9]),
        (1, [0.1, 0.1, 0.1, 0.1]),
        (2, [0.1, 0.1, 0.1, 0.9]),
    ):
        path = homes.folder_of(tmp_path, "FedSLS", seed) / "rounds.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        path.write_text(
            "".join(
                json.dumps({**r, "accuracy": a}) + "\n"
                for r, a in zip(rows, accuracies, strict=True)
            )
        )
    line = compare(load_results(tmp_path), target=0.9).methods[1]
    assert (line.reached, line.reach.rounds) == (2, 4)  # of 2, 4 and never
    assert compare(load_results(tmp_path), target=0.95).methods[1].reach.rounds == inf


def test_tuning_counts_in_the_total(home):
    lines = compare(load_results(home[0])).methods
    assert [(line.tuning_rounds, line.total_rounds) for line in lines] == [
        (20, 80),
        (0, 60),
        (0, 60),
    ]


def test_differences_pair_the_seeds(home):
    folder, rows = home
    found = compare(load_results(folder), reference="FedSLS")
    end = {
        label: array(rows, label, "accuracy")[:, 1::2][:, -3:].mean(1)
        for label in ("FedAvg", "FedSLS")
    }
    gaps = end["FedAvg"] - end["FedSLS"]
    test = stats.ttest_1samp(gaps, 0).confidence_interval(0.95)
    line = found.methods[0].difference
    assert (line.mean, line.low, line.high) == pytest.approx(
        (gaps.mean(), test.low, test.high), rel=2e-4
    )
    assert line.p == 2 / 32  # all five gaps have one sign
    assert found.methods[1].difference is None


def test_t_interval_by_hand():
    # gaps 1, 2, 3: mean 2, std 1, t(2 degrees) = 4.303, half width 4.303 / sqrt(3)
    found = difference({0: 2.0, 1: 4.0, 2: 6.0, 9: 5.0}, {0: 1.0, 1: 2.0, 2: 3.0, 7: 0.0})
    assert (found.mean, found.pairs) == (2.0, 3)
    assert (found.low, found.high) == pytest.approx((2 - 4.303 / sqrt(3), 2 + 4.303 / sqrt(3)))
    one = difference({0: 1.0}, {0: 0.5})
    assert (one.mean, one.pairs) == (0.5, 1)
    assert isnan(one.low)


def test_t_quantiles_are_those_of_the_distribution():
    assert pytest.approx(stats.t.ppf(0.975, np.arange(1, 31)), abs=5.1e-4) == T975


def test_sign_flips_by_hand():
    # 1 + 2 + 3 = 6: of eight sums only +6 and -6 are as far out
    assert sign_flip([1.0, 2.0, 3.0]) == 2 / 8
    # 1 + 2 - 1 = 2: sums 4, 2, 2, 0 and their opposites; six of eight reach 2
    assert sign_flip([1.0, 2.0, -1.0]) == 6 / 8
    assert sign_flip([0.0, 0.0]) == 1
    assert sign_flip([0.1, 0.2, -0.3]) == 1  # rounding makes a sum of 0 tiny, not extreme
    assert isnan(sign_flip([]))
    assert isnan(sign_flip([1.0] * 21))


def test_sign_flips_agree_with_scipy():
    gaps = np.random.default_rng(0).normal(0.5, 1, 7)
    p = stats.permutation_test((gaps,), np.mean, permutation_type="samples", n_resamples=inf).pvalue
    assert sign_flip(list(gaps)) == pytest.approx(p)


def test_a_loss_that_is_not_finite_is_not_averaged_away(home):
    folder, _ = home
    path = homes.folder_of(folder, "FedAvg", 0) / "rounds.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[-1]["train_loss"] = None
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    found = compare(load_results(folder))
    assert isnan(found.methods[0].train_loss.mean)
    assert "not finite" in comparison_grids(found)[0].rows[0]


def test_bad_arguments_name_value_and_remedy(home):
    results = load_results(home[0])
    with pytest.raises(InputError, match=r"target 80: give an accuracy in \(0, 1\]"):
        compare(results, target=80)
    with pytest.raises(InputError, match="did you mean FedSLS"):
        compare(results, reference="FedSL")


def test_one_seed_has_no_deviation_and_no_interval(tmp_path):
    homes.make(tmp_path, seeds=(0,))
    found = compare(load_results(tmp_path))
    assert isnan(found.methods[0].score.std)
    assert "±" not in markdown(found).split("- Mean")[0]


def test_without_accuracy_there_is_still_a_comparison(tmp_path):
    homes.make(tmp_path, seeds=(0, 1))
    for path in (tmp_path / "runs").glob("*/rounds.jsonl"):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        none = dict.fromkeys(("accuracy", "last_accuracy", "heldout_accuracy"))
        path.write_text("".join(json.dumps({**r, **none}) + "\n" for r in rows))
    found = compare(load_results(tmp_path))
    assert isnan(found.target)
    assert "accuracy %" not in comparison_grids(found)[0].heads
    assert "training loss" in comparison_grids(found)[0].heads
    assert "nan" not in markdown(found)


def test_tables_show_published_numbers_beside_ours(tmp_path):
    homes.make(tmp_path, published={"FedSLS": {"accuracy": [82.75, 0.81]}})
    found = compare(load_results(tmp_path))
    text = markdown(found)
    head = next(line for line in text.splitlines() if line.startswith("| method"))
    assert "| published accuracy |" in head
    assert "| 82.75 ± 0.81 |" in text
    assert (
        f"{100 * found.methods[1].score.mean:.2f} ± {100 * found.methods[1].score.std:.2f}" in text
    )
    assert [len(t.columns) for t in rich_tables(found)] == [
        len(g.heads) for g in comparison_grids(found)
    ]
    assert any("0.0625 with 5 seeds" in note for note in comparison_notes(found))


def test_infinities_and_nan_never_reach_a_table(home):
    text = markdown(compare(load_results(home[0]), target=1.0))
    assert "inf" not in text.replace("difference", "")
    assert "never" in text
    assert str(nan) not in text
