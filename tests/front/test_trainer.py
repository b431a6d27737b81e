"""What people expect of a trainer: callbacks, validation, files, personal models."""

from __future__ import annotations

import math
import warnings

import pytest
import safetensors.torch
import torch
from torch import nn

import fedstep
from fedstep.callbacks import Callback, Checkpoint, EarlyStopping, KeepBest, Progress


def clients(n=5, size=12, seed=1):
    g = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(n):
        x = torch.randn(size, 4, generator=g)
        made.append((x, (x[:, 0] > 0).long()))
    return made


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))


TEST = clients(1, 30, seed=2)[0]
BLANK = (0 * TEST[0], TEST[1])


def train(rounds=4, data=None, algorithm="fedsls", **options):
    options = {"local_steps": 3, "batch": 5, "progress": False, **options}
    return fedstep.fit(net(), data or clients(), algorithm, rounds, **options)


class Seen(Callback):
    def __init__(self, stop_at=None, break_at=None):
        self.calls, self.stop_at, self.break_at = [], stop_at, break_at

    def start(self, run):
        self.calls.append(("start", len(run.earlier), run.rounds))

    def round(self, moment):
        self.calls.append(("round", moment.report.round))
        if moment.report.round == self.break_at:
            raise KeyboardInterrupt
        if moment.report.round == self.stop_at:
            moment.stop("enough")

    def end(self, result):
        self.calls.append(("end", len(result.rows)))


def test_callbacks_see_start_rounds_and_end_and_change_no_number():
    seen, models = Seen(), []
    result = train(2, callbacks=[seen, lambda moment: models.append(moment.model)])
    assert seen.calls == [("start", 0, 2), ("round", 1), ("round", 2), ("end", 2)]
    assert torch.equal(models[-1][0].weight, result.model[0].weight)
    assert not torch.equal(models[0][0].weight, result.model[0].weight)
    assert torch.equal(result.x, train(2).x)
    with pytest.raises(fedstep.InputError, match=r"callback .*EarlyStopping.*give a Callback"):
        train(1, callbacks=[EarlyStopping])


def test_a_callback_may_stop_the_run_also_in_a_folder(tmp_path):
    plain = train(4, callbacks=[Seen(stop_at=2)])
    assert len(plain.rows) == 2
    assert "stopped after round 2 of 4: enough" in str(plain)
    kept = train(4, out=tmp_path, callbacks=[Seen(stop_at=2)])
    assert torch.equal(kept.x, plain.x)
    again = Seen()
    read_back = train(4, out=tmp_path, callbacks=[again])
    assert torch.equal(read_back.x, plain.x)
    assert again.calls == [("start", 2, 4), ("end", 2)]


def test_callbacks_of_a_resumed_run_see_the_earlier_rounds(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train(4, out=tmp_path, callbacks=[Seen(break_at=3)])
    seen = Seen()
    result = train(4, out=tmp_path, callbacks=[seen])
    (_, earlier, _), *rest = seen.calls
    assert earlier >= 1
    assert rest == [*(("round", k) for k in range(earlier + 1, 5)), ("end", 4)]
    assert torch.equal(result.x, train(4).x)


class Faked(Callback):
    """Puts values of its own before the callback under test."""

    def __init__(self, inner, values):
        self.inner, self.values = inner, values

    def start(self, run):
        self.inner.start(run)

    def round(self, moment):
        value = self.values[moment.report.round - 1]
        object.__setattr__(moment.report, "test", {"accuracy": value})
        self.inner.round(moment)


def test_early_stopping_waits_for_something_better():
    values = [0.1, 0.5, 0.4, math.nan, 0.5, 0.9]
    result = train(6, test=TEST, callbacks=[Faked(EarlyStopping(patience=2), values)])
    assert len(result.rows) == 5  # 0.4 and 0.5 are no better than 0.5; a gap does not count
    longer = train(6, test=TEST, callbacks=[Faked(EarlyStopping(patience=3), values)])
    assert len(longer.rows) == 6
    with pytest.raises(fedstep.InputError, match="did you mean accuracy"):
        train(1, test=TEST, callbacks=[EarlyStopping(column="acuracy")])
    with pytest.raises(fedstep.InputError, match="patience=0"):
        EarlyStopping(patience=0)


def test_the_best_model_is_kept_and_found_again(tmp_path):
    best, models = KeepBest(), []
    values = [0.1, 0.5, 0.5, 0.4]
    train(
        4,
        test=TEST,
        out=tmp_path / "run",
        callbacks=[Faked(best, values), lambda moment: models.append(moment.model)],
    )
    assert (best.best_round, best.value) == (2, 0.5)
    assert torch.equal(best.model[0].weight, models[1][0].weight)
    written = safetensors.torch.load_file(tmp_path / "run/best.safetensors")
    assert torch.equal(written["0.weight"], models[1][0].weight)
    later = KeepBest()
    train(4, test=TEST, out=tmp_path / "run", callbacks=[later])
    assert later.best_round == 2
    assert torch.equal(later.tensors["0.weight"], models[1][0].weight)


def test_what_is_watched_is_validation_before_test_before_loss():
    for options, column in (
        ({"validation": TEST, "test": TEST}, "validation_accuracy"),
        ({"test": TEST}, "accuracy"),
        ({}, "loss"),
    ):
        best = KeepBest()
        result = train(3, callbacks=[best], **options)
        column_values = [row.to_dict()[column] for row in result.rows]
        better = max
        if column == "loss":
            better = min
        assert best.value == better(column_values)


def test_checkpoints_of_the_model_every_few_rounds(tmp_path):
    train(5, callbacks=[Checkpoint(tmp_path, every=2, keep=2)])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["model-000004.safetensors", "model-000005.safetensors"]
    net().load_state_dict(safetensors.torch.load_file(tmp_path / names[0]))


def test_progress_is_a_callback_that_writes_to_stderr(capsys):
    train(2, callbacks=[Progress()])
    lines = capsys.readouterr().err.splitlines()
    assert any("every client counts the same" in line for line in lines)
    assert any(line.startswith("fedsls 2/2  loss") for line in lines)


def test_validation_has_columns_of_its_own():
    half = [field[:15] for field in TEST]
    row = train(2, test=TEST, validation=tuple(half), every=2).rows
    assert math.isnan(row[0].to_dict()["validation_accuracy"])
    alone = train(2, test=tuple(half)).rows[-1]
    assert row[-1].validation == {"loss": alone.test_loss, "accuracy": alone.accuracy}
    assert "validation_loss" not in alone.to_dict()


def test_rows_with_all_columns_come_back_from_the_folder(tmp_path):
    options = dict(validation=TEST, scoring=fedstep.Scoring(clients=True, heldout=TEST))
    one = train(2, test=TEST, out=tmp_path, **options)
    two = train(2, test=TEST, out=tmp_path, **options)
    assert one.rows == two.rows
    assert one.rows[-1].heldout == one.rows[-1].test
    assert set(one.rows[-1].by_client) == {"mean_accuracy", "worst_accuracy", "spread_accuracy"}


def test_clients_are_evaluated_one_by_one():
    data = clients(20, 6)
    result = train(2, data=data, test=TEST, scoring=fedstep.Scoring(clients=True))
    shares = []
    for x, y in data:
        hits = result.model(x).argmax(-1) == y
        shares.append(float(hits.double().mean()))
    by_client = result.rows[-1].by_client
    shares.sort()
    assert by_client["mean_accuracy"] == pytest.approx(sum(shares) / 20)
    assert by_client["worst_accuracy"] == pytest.approx(sum(shares[:2]) / 2)
    assert by_client["spread_accuracy"] == pytest.approx(
        float(torch.tensor(shares).std(unbiased=False)), rel=1e-5
    )


def test_a_test_set_for_each_client_is_what_clients_are_scored_on():
    tests = clients(5, 8, seed=3)
    result = train(2, test=tests, scoring=fedstep.Scoring(clients=True))
    row = result.rows[-1]
    # all have the same number of samples: the mean over clients is that over samples
    assert row.by_client["mean_accuracy"] == pytest.approx(row.accuracy)
    loss_only = train(2, scoring=fedstep.Scoring(clients=True), loss=lambda p, y: (p**2).sum(-1))
    assert set(loss_only.rows[-1].by_client) == {
        "mean_accuracy",
        "worst_accuracy",
        "spread_accuracy",
    }


def test_resume_can_be_refused(tmp_path):
    train(1, out=tmp_path / "a", resume=False)
    with pytest.raises(fedstep.InputError, match=r"there is a run already; resume=True"):
        train(1, out=tmp_path / "a", resume=False)


def test_a_saved_result_is_loaded_as_it_was(tmp_path):
    result = train(2, test=TEST)
    result.save(tmp_path / "saved")
    back = fedstep.load(tmp_path / "saved", model=net())
    assert torch.equal(back.x, result.x)
    assert [row.loss for row in back.rows] == [row.loss for row in result.rows]
    assert torch.equal(back.model[0].weight, result.model[0].weight)
    assert fedstep.load(tmp_path / "saved").model is None
    with pytest.raises(fedstep.InputError, match="there is a run already"):
        result.save(tmp_path / "saved")
    with pytest.raises(fedstep.InputError, match="do not fit Linear"):
        fedstep.load(tmp_path / "saved", model=nn.Linear(4, 2))
    with pytest.raises(fedstep.InputError, match="no finished run"):
        fedstep.load(tmp_path)
    model_file = tmp_path / "saved/model.safetensors"
    model_file.write_bytes(model_file.read_bytes()[:-1])
    with pytest.raises(fedstep.InputError, match=r"model.safetensors: damaged"):
        fedstep.load(tmp_path / "saved")


def test_a_run_in_a_folder_is_loaded_too(tmp_path):
    result = train(2, out=tmp_path)
    assert torch.equal(fedstep.load(tmp_path).x, result.x)


def test_without_jinja2_a_run_is_whole_and_a_page_is_asked_for_in_one_line(tmp_path, monkeypatch):
    from fedstep.report import render

    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    render._environment.cache_clear()  # what an earlier test has made
    with pytest.warns(
        UserWarning, match=r"no page was written: .* pip install 'fedstep\[report\]'"
    ):
        result = train(2, out=tmp_path)
    assert torch.equal(fedstep.load(tmp_path).x, result.x)
    with pytest.raises(fedstep.InputError, match=r"pip install 'fedstep\[report\]'"):
        result.report(tmp_path / "page.html")


def test_a_result_can_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    figure = train(3, test=TEST).plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 1000
    assert len(figure.axes) >= 2


def test_history_is_a_frame_on_request():
    pandas = pytest.importorskip("pandas")
    result = train(3, test=TEST)
    frame = result.history()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.index.tolist() == [1, 2, 3]
    assert frame["accuracy"].tolist() == [row.accuracy for row in result.rows]
    assert frame["step_median"].tolist() == [row.steps[2] for row in result.rows]


def test_history_without_pandas_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(fedstep.InputError, match=r"pip install 'fedstep\[pandas\]'"):
        train(1).history()


def test_a_personal_model_is_better_at_home():
    x, y = clients(1, 40, seed=7)[0]
    other = (x, 1 - y)  # a client whose labels mean the opposite
    result = train(6)
    personal = fedstep.fine_tune(result, other, steps=40, test=other)
    before = float((result.model(x).argmax(-1) == 1 - y).float().mean())
    assert personal.rows[-1].accuracy > before + 0.3
    assert torch.equal(personal.recipe.flat.init(), result.x)  # it goes on from the trained model
    assert personal.rows[0].trials > 0  # the same line search
    assert len(personal.rows) == 14  # 40 steps by threes
    assert not torch.equal(personal.x, result.x)
    with pytest.raises(fedstep.InputError, match="steps=0"):
        fedstep.fine_tune(result, other, steps=0)


def test_a_personal_model_keeps_dropout_and_names():
    class Keywords(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.drop = net(), nn.Dropout(0.5)

        def forward(self, values):
            return self.inner(self.drop(values))

    data = [{"values": x, "labels": y} for x, y in clients()]
    result = fedstep.fit(Keywords(), data, rounds=2, local_steps=3, batch=5, progress=False)
    personal = fedstep.fine_tune(result, data[0], steps=3)
    flat = personal.recipe.flat
    assert flat.module.drop.training
    assert flat.names == ("values", "labels")


def test_a_loaded_result_is_tuned_further_as_the_one_it_was(tmp_path):
    result = train(3)
    result.save(tmp_path / "saved")
    back = fedstep.load(tmp_path / "saved", model=net())
    own = [fedstep.fine_tune(one, clients()[0], steps=7) for one in (result, back)]
    assert torch.equal(own[0].x, own[1].x)
    assert not torch.equal(own[1].x, result.x)
    with pytest.raises(fedstep.InputError, match=r"fedstep.load\(folder, model=...\)"):
        fedstep.fine_tune(fedstep.load(tmp_path / "saved"), clients()[0])
    with pytest.raises(fedstep.InputError, match="leave them out"):
        fedstep.fine_tune(result, clients()[0], loss="mse")


def test_what_files_cannot_hold_is_asked_for_in_one_line(tmp_path):
    method = fedstep.build("fedsls")
    data = [(x, x[:, :2]) for x, _ in clients()]
    options = dict(loss=nn.functional.mse_loss, local_steps=3, batch=5, progress=False)
    result = fedstep.fit(net(), data, method, 2, out=tmp_path, **options)
    back = fedstep.load(tmp_path, model=net())
    with pytest.raises(fedstep.InputError, match="method has no name; give algorithm="):
        fedstep.fine_tune(back, data[0], steps=3)
    with pytest.raises(fedstep.InputError, match="loss was mse_loss; give loss="):
        fedstep.fine_tune(back, data[0], steps=3, algorithm=method)
    own = fedstep.fine_tune(back, data[0], steps=3, algorithm=method, loss=options["loss"])
    assert torch.equal(own.x, fedstep.fine_tune(result, data[0], steps=3).x)


def test_a_standardized_run_is_loaded_with_the_module_that_was_given(tmp_path):
    data = [(100 * x + 7, y) for x, y in clients()]
    result = train(2, data=data, standardize=True)
    result.save(tmp_path / "saved")
    back = fedstep.load(tmp_path / "saved", model=net())
    assert torch.equal(back.model(data[0][0]), result.model(data[0][0]))
    own = [fedstep.fine_tune(one, data[0], steps=3).x for one in (result, back)]
    assert torch.equal(*own)


def test_a_loaded_model_is_tuned_in_the_modes_it_was_given_with(tmp_path):
    module = nn.Sequential(nn.Dropout(0.5), net())
    options = dict(local_steps=3, batch=5, progress=False)
    result = fedstep.fit(module, clients(), "fedsls", 2, **options)
    result.save(tmp_path / "saved")
    back = fedstep.load(tmp_path / "saved", model=module)
    assert not back.model.training
    assert fedstep.fine_tune(back, clients()[0], steps=3).recipe.flat.module[0].training


# Early warnings: each case, the words it is told in, and a healthy run that says nothing.

RAW = torch.tensor([1.0, 1e4, 1.0, 1.0])


def wrong(data, change):
    return [change(x, y) for x, y in data]


CASES = {
    "columns of other scales": (
        dict(data=wrong(clients(), lambda x, y: (x * RAW, y))),
        "differ by .* in scale: give standardize=True",
    ),
    "one client has most of the weight": (
        dict(data=[*clients(), clients(1, 400)[0]], weighting="samples"),
        "client 5 has 87% of the weight: give weighting='equal'",
    ),
    "a batch larger than most clients": (
        dict(batch=13),
        r"batch=13 is larger than 100% of the clients \(median 12 samples\).*give batch=3",
    ),
    "labels missing": (
        dict(data=wrong(clients(), lambda x, y: (x, torch.zeros_like(y) + int(x[0, 0] > 0)))),
        "half of the clients have at most 1 of the 2 labels",
    ),
    "labels that belong to others": (
        dict(test=(TEST[0], 1 - TEST[1]), rounds=6),
        r"is chance \(0.500\): check that inputs and labels belong together",
    ),
    "nothing that is learnt": (
        # whatever the biases do, the model says the same for all: about half of it is right
        dict(data=wrong(clients(), lambda x, y: (0 * x, y)), test=BLANK, rounds=6),
        "the loss is flat|is chance",
    ),
    "steps that move nothing": (
        dict(algorithm="fedsls(max_step=1e-9)", rounds=5, test=TEST),
        r"nearly all steps are null \(median 1e-09\)",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_trouble_is_told_within_five_rounds_in_one_line(case):
    options, message = CASES[case]
    with pytest.warns(fedstep.training.early.EarlyWarning, match=message) as told:
        result = train(**{"rounds": 2, **options})
    assert all("\n" not in str(one.message) for one in told)
    assert any(note in str(result) for note in [str(told[0].message)])


@pytest.mark.parametrize("method", ["fedsls", "fedexpsls", "fedavg", "fedpace"])
def test_a_healthy_run_says_nothing(method):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = clients(10, 30)
        fedstep.fit(net(), data, method, 6, local_steps=5, batch=8, test=TEST, progress=False)


def test_standardized_columns_are_not_warned_of():
    data = wrong(clients(), lambda x, y: (x * RAW, y))
    assert not train(2, data=data, standardize=True).recipe.flat.linear
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(2, data=data, standardize=True)


def test_bytes_of_pictures_are_no_columns_of_other_scales():
    pixels = torch.randint(256, (40, 6), generator=torch.Generator().manual_seed(0)) / 255
    pixels[:, 0] = 0
    pixels[3, 0] = 1 / 255  # hardly ever inked
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fedstep.fit(
            nn.Linear(6, 2),
            [(pixels, torch.arange(40) % 2)] * 3,
            "fedsls",
            2,
            batch=8,
            progress=False,
        )


def test_the_committed_runs_would_have_said_nothing():
    from pathlib import Path

    from fedstep.analysis.results import labelled_runs
    from fedstep.run.record import RoundReport
    from fedstep.training.early import Chance, outcome_lines, search_lines

    runs = labelled_runs(Path(__file__).parents[2] / "results/femnist-pace")
    assert runs
    lines = {}
    for run in runs:
        name = f"{run.label}, seed {run.job.seed}"
        rows = [RoundReport.from_dict(row) for row in run.stored.rows[:5]]
        told = [*search_lines(rows), *outcome_lines(rows, Chance(1 / 62, 10_000))]
        if told:
            lines[name] = told
    # FedDoG begins with steps of a millionth: after five rounds it has learnt nothing
    assert {name.partition(",")[0] for name in lines} <= {"FedDoG"}
