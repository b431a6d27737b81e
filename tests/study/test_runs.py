"""Studies survive what happens to them, and end in the same bits."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedstep import InputError
from fedstep.cli.study import SHIPPED
from fedstep.data import tasks
from fedstep.data.partition import Iid
from fedstep.data.parts import partition_hash
from fedstep.run import checkpoint
from fedstep.run.folder import read_run
from fedstep.run.journal import Journal
from fedstep.study.kept import finished, folder_of
from fedstep.study.plan import Job, Setting
from fedstep.study.pool import run_all
from fedstep.study.study_file import read_study
from fedstep.study.tune import tune
from fedstep.study.work import work

STUDY = """
title = "A small study"
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
partition = "Dirichlet(alpha=0.5, clients=12)"
rounds = 12
per_round = 4
steps = 3
batch = 20
every = 3
seeds = [0, 1]

[tuning]
rounds = 3

[scales.small]
rounds = 2
seeds = [0]

[[methods]]
label = "FedAvg"
spec = "fedavg(step={step})"
grid = { step = [0.01, 0.1, 1.0] }

[[methods]]
label = "FedExpSLS"
spec = "fedexpsls(carry=True)"
"""


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(STUDY)
    return path


@pytest.fixture(autouse=True)
def _checkpoint_every_round(monkeypatch):
    monkeypatch.setattr("fedstep.run.driver.SHARE", 1e9)


def job(method="fedexpsls(carry=True)", rounds=8, seed=3):
    setting = Setting(
        "synthetic",
        "mlp(inputs=40, hidden=8, classes=10)",
        "Iid(clients=6)",
        rounds,
        3,
        3,
        None,
        10,
        2,
    )
    return Job(setting, method, seed)


HANGS = 900  # seconds: bounds a hang, measures nothing


def command(*words):
    return [sys.executable, "-m", "fedstep.cli", *map(str, words)]


def interruptible(*words):
    """The command with SIGINT as a terminal gives it.

    Where the tests run in the background of a shell, their children inherit that it is ignored.
    """
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from fedstep.cli import main; raise SystemExit(main())"
    )
    return [sys.executable, "-c", code, *map(str, words)]


def content(home: Path):
    """Everything a study leaves, less the clock."""
    found = {}
    for path in sorted((home / "runs").glob("*/rounds.jsonl")):
        rows = [{k: v for k, v in row.items() if k != "seconds"} for row in Journal(path).rows()]
        found[path.parent.name] = rows, (path.parent / "model.safetensors").read_bytes()
    return found


def await_rows(home: Path, rows: int):
    """Until so many rounds are on disk."""
    given_up = time.monotonic() + HANGS
    while sum(len(p.read_text().splitlines()) for p in home.glob("runs/*/rounds.jsonl")) < rows:
        assert time.monotonic() < given_up
        time.sleep(0.005)


def test_tuning_on_clients_set_aside_scores_no_test_sample(study, tmp_path):
    study.write_text(study.read_text().replace("[tuning]", "[tuning]\nclients = 5"))
    plan = read_study(study)
    home = tmp_path / "home"
    choices = tune(plan, home, None)
    trials = plan.trials(plan.methods[0])
    for trial in trials:
        stored = read_run(folder_of(trial, home))
        last = stored.rows[-1]
        assert last["accuracy"] is None
        assert last["test_loss"] is None
        assert choices["FedAvg"].scores[trial.method] == last["validation_accuracy"]
        # those who judge do not train
        assert stored.spec["clients"] == 12 - 5
        assert stored.spec["test_samples"] == 0
    # the runs that are compared have all clients, and are scored on the test samples
    final = plan.runs({method.label: method.candidates()[0] for method in plan.methods})
    assert all(job.setting.set_aside is None for job in final)


def test_clients_set_aside_are_drawn_by_the_seed_and_leave_the_others_whole():
    whole = tasks.load("synthetic", Iid(clients=6), seed=0)
    made = [tasks.set_aside(whole, 2, seed) for seed in range(4)]
    digests = {partition_hash(split.federation.parts) for split in made}
    assert len(digests) > 1
    for split in made:
        assert len(split.federation) == 4
        trained = set(split.federation.parts.samples.tolist())
        assert len(trained) + len(split.validation[1]) == len(whole.federation.parts.samples)
        assert split.test is None
    for count in (0, 6):
        with pytest.raises(InputError, match="give 1 to 5"):
            tasks.set_aside(whole, count, seed=0)


def test_runs_of_before_there_were_clients_set_aside_keep_their_folders():
    assert job().digest == "be487738ec87965f"
    aside = replace(job().setting, set_aside=1)
    assert replace(job(), setting=aside).digest != job().digest


def test_a_study_runs_tunes_and_leaves_its_results(study, tmp_path):
    home = tmp_path / "home"
    assert subprocess.run(command("run", study, "--out", home), capture_output=True).returncode == 0
    choices = {c["label"]: c for c in json.loads((home / "tuning.json").read_text())}
    assert choices["FedAvg"]["rounds"] == 9
    assert choices["FedAvg"]["spec"] == max(
        choices["FedAvg"]["scores"], key=choices["FedAvg"]["scores"].get
    )
    assert choices["FedExpSLS"] == {
        "label": "FedExpSLS",
        "spec": "fedexpsls(carry=True)",
        "rounds": 0,
        "scores": {},
    }
    runs = content(home)
    assert len(runs) == 3 + 4
    long = [rows for rows, _ in runs.values() if len(rows) == 12]
    assert len(long) == 4
    evaluated = [row["round"] for row in long[0] if row["accuracy"] is not None]
    assert evaluated == [3, 6, 9, 12]
    assert all(row["train_loss"] is not None for row in long[0] if row["round"] in evaluated)
    spec = json.loads(next((home / "runs").glob("*/spec.json")).read_text())
    assert {"partition", "versions", "algorithm", "seed", "setting", "digest"} <= set(spec)


def test_two_workers_give_the_bits_of_one(study, tmp_path):
    for name, workers in (("one", 1), ("two", 2)):
        done = subprocess.run(
            command("run", study, "--out", tmp_path / name, "--workers", workers),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_a_single_run_has_its_workers_within_the_round(tmp_path):
    run_all([job()], ["a"], tmp_path / "one", None, 1)
    run_all([job()], ["a"], tmp_path / "two", None, 2)
    assert content(tmp_path / "one") == content(tmp_path / "two")
    assert not multiprocessing.active_children()


def test_a_study_killed_again_and_again_ends_in_the_same_bits(study, tmp_path):
    study.write_text(STUDY.replace("rounds = 12", "rounds = 60"))
    assert (
        subprocess.run(
            command("run", study, "--out", tmp_path / "calm"), capture_output=True
        ).returncode
        == 0
    )
    cut_short = 0
    for rows in (2, 20, 60, 120):  # 249 in all
        process = subprocess.Popen(
            command("run", study, "--out", tmp_path / "rough"),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        await_rows(tmp_path / "rough", rows)
        cut_short += process.poll() is None  # on a busy machine it may be through before we look
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert cut_short > 0
    assert (
        subprocess.run(
            command("run", study, "--out", tmp_path / "rough"), capture_output=True
        ).returncode
        == 0
    )
    assert content(tmp_path / "calm") == content(tmp_path / "rough")


def test_workers_die_with_the_process_that_started_them_and_the_next_goes_on(study, tmp_path):
    assert (
        subprocess.run(
            command("run", study, "--out", tmp_path / "calm"), capture_output=True
        ).returncode
        == 0
    )
    for rows in (4, 20):
        process = subprocess.Popen(
            command("run", study, "--out", tmp_path / "rough", "--workers", 2),
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        await_rows(tmp_path / "rough", rows)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    words = command("run", study, "--out", tmp_path / "rough", "--workers", 2)
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert content(tmp_path / "calm") == content(tmp_path / "rough")


def test_a_run_that_is_being_worked_on_is_refused(tmp_path):
    seen = []

    def watch(row):
        if not seen:
            with pytest.raises(InputError, match="another process is working on this run"):
                work(job(), tmp_path, None)
            seen.append(row.round)

    work(job(), tmp_path, None, watch)
    assert seen == [1]
    assert finished(job(), tmp_path)


class Stop(Exception):
    pass


@pytest.mark.parametrize("at", [1, 3, 7])
def test_a_run_stopped_after_any_round_ends_in_the_same_bits(tmp_path, at):
    work(job(), tmp_path / "calm", None)

    def watch(row):
        if row.round == at:
            raise Stop

    with pytest.raises(Stop):
        work(job(), tmp_path / "rough", None, watch)
    work(job(), tmp_path / "rough", None)
    assert content(tmp_path / "calm") == content(tmp_path / "rough")


def interrupted(home, at=5):
    def watch(row):
        if row.round == at:
            raise Stop

    with pytest.raises(Stop):
        work(job(), home, None, watch)
    return folder_of(job(), home)


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path):
    work(job(), tmp_path / "calm", None)
    folder = interrupted(tmp_path / "rough")
    newest = checkpoint.descriptions(folder)[0]
    data = bytearray(newest.with_suffix(".safetensors").read_bytes())
    data[-1] ^= 1
    newest.with_suffix(".safetensors").write_bytes(data)
    said = work(job(), tmp_path / "rough", None)
    assert len(said) == 1
    assert newest.with_suffix(".safetensors").name in said[0]
    assert "damaged" in said[0]
    assert content(tmp_path / "calm") == content(tmp_path / "rough")


def test_without_a_whole_checkpoint_the_remedy_is_named(tmp_path):
    folder = interrupted(tmp_path)
    for path in checkpoint.descriptions(folder):
        path.with_suffix(".safetensors").write_bytes(b"torn")
    with pytest.raises(InputError, match=r"damaged.*remove .* to begin that run anew"):
        work(job(), tmp_path, None)


def test_a_torn_last_line_is_cut_and_a_broken_middle_is_named(tmp_path):
    journal = Journal(tmp_path / "rounds.jsonl")
    for t in (1, 2, 3):
        journal.append({"round": t, "loss": float("nan")})
    with journal.path.open("a") as file:
        file.write('{"round": 4, "lo')
    assert [r["round"] for r in journal.rows()] == [1, 2, 3]
    journal.keep(2)
    assert journal.rows() == [{"round": 1, "loss": None}, {"round": 2, "loss": None}]
    with pytest.raises(InputError, match="rounds are missing before 3"):
        journal.keep(3)
    journal.path.write_text('{"round": 1}\nbroken\n{"round": 3}\n')
    with pytest.raises(InputError, match="line 2"):
        journal.rows()


def test_checkpoints_hold_memories_and_are_removed_at_the_end(tmp_path):
    folder = interrupted(tmp_path)
    restored = checkpoint.restore(folder)
    assert restored.server.round == 4  # the fifth was cut short
    assert restored.complaints == ()
    assert all(set(memory) == {"step.step"} for memory in restored.store.memories.values())
    assert len(checkpoint.descriptions(folder)) == 2
    work(job(), tmp_path, None)
    assert finished(job(), tmp_path)
    assert not checkpoint.descriptions(folder)


def test_what_is_finished_is_not_run_again(tmp_path):
    work(job(), tmp_path, None)
    before = (folder_of(job(), tmp_path) / "rounds.jsonl").stat().st_mtime_ns
    run_all([job(), job()], ["a", "b"], tmp_path, None)
    assert (folder_of(job(), tmp_path) / "rounds.jsonl").stat().st_mtime_ns == before


def test_the_hash_names_the_specification():
    assert job().digest == job().digest
    assert len({job().digest, job(seed=4).digest, job(rounds=9).digest, job("fedsls").digest}) == 4


def test_interrupt_says_so_and_the_next_call_goes_on(study, tmp_path):
    study.write_text(STUDY.replace("rounds = 12", "rounds = 5000"))
    for rows in (20, 60):
        process = subprocess.Popen(
            interruptible("run", study, "--out", tmp_path / "home"),
            stderr=subprocess.PIPE,
            text=True,
        )
        await_rows(tmp_path / "home", rows)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=HANGS)
        assert process.returncode == 130
        assert (
            error.strip().splitlines()[-1]
            == "fedstep: interrupted; the same command goes on from here"
        )
    for path in (tmp_path / "home/runs").glob("*/rounds.jsonl"):
        rounds = [row["round"] for row in Journal(path).rows()]
        assert rounds == list(range(1, len(rounds) + 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rounds = 12", "round = 12", "unknown setting 'round': did you mean rounds"),
        ('spec = "fedexpsls(carry=True)"', 'spec = "fedexpslss"', "did you mean fedexpsls"),
        ("{step}", "{steps}", "does not fit its grid"),
        ('label = "FedExpSLS"', 'label = "FedAvg"', "different labels"),
        ("seeds = [0, 1]", 'seeds = ["a"]', "whole numbers"),
        ("title =", "title", "mine.toml"),
        ('data = "synthetic"', "", "data"),
        ("every = 3", 'weighting = "sample"', "give 'equal' or 'samples'"),
    ],
)
def test_mistakes_in_a_study_are_named(study, old, new, message):
    study.write_text(STUDY.replace(old, new, 1))
    with pytest.raises(InputError, match=message) as caught:
        read_study(study)
    assert "mine.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_names_on_the_command_line_are_one_line(study, tmp_path):
    for words, message in (
        (["run", "femnist-logreq"], "did you mean femnist-logreg"),
        (["run", study, "--scale", "smal"], "did you mean small"),
        (["run", study, "--workers", "0", "--out", tmp_path / "x"], "--workers 0"),
        (["run", tmp_path / "none.toml"], "no such study"),
    ):
        done = subprocess.run(command(*words), capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 2
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_every_shipped_study_can_be_read_at_both_scales():
    folder = Path(__file__).parents[2] / "studies"
    names = {p.stem for p in folder.glob("*.toml")}
    assert {"toy", "femnist-logreg", "shakespeare-lstm", "cifar10-cnn", "cifar10-resnet18"} <= names
    assert {"cifar100-resnet18", "cifar100-cnn", "sensitivity-c", "sensitivity-c-cifar10"} <= names
    for path in folder.glob("*.toml"):
        assert read_study(path).seeds
        assert read_study(path, "small").setting.rounds <= 30


def test_the_model_of_a_run_depends_on_its_seed_alone(tmp_path):
    torch.manual_seed(1)
    work(job(rounds=1), tmp_path / "a", None)
    torch.manual_seed(2)
    work(job(rounds=1), tmp_path / "b", None)
    assert content(tmp_path / "a") == content(tmp_path / "b")


@pytest.mark.parametrize("model", ["logistic(inputs=30, classes=10)", "lenet(classes=10)"])
def test_a_model_that_does_not_fit_its_data_is_one_line(study, tmp_path, capsys, model):
    from fedstep.cli import main

    study.write_text(STUDY.replace("logistic(inputs=40, classes=10)", model))
    assert main(["run", str(study), "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err.strip()
    assert len(message.splitlines()) == 1
    assert message.startswith(f"fedstep: {model} on synthetic: ")
    assert message.endswith("the model and the samples do not fit")


def test_the_papers_studies_are_listed_and_estimates_count_every_run(capsys):
    from fedstep.cli import main
    from fedstep.study.estimate import TRIALS, estimate

    assert main(["paper", "--quick"]) == 0
    text = capsys.readouterr().out
    assert "femnist-logreg" in text
    assert "40 x 500" in text
    study = read_study(Path(__file__).parents[2] / "studies/femnist-logreg.toml")
    cost = estimate(study)
    assert cost.step > 0
    assert cost.tuning == pytest.approx(36 * 100 * 20 * 20 * cost.step)
    assert cost.runs == pytest.approx(5 * 500 * 20 * 20 * cost.step * (5 + 3 * (1 + TRIALS / 3)))


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_a_step_of_every_shipped_study_can_be_timed(path):
    from fedstep.study.estimate import seconds_a_step

    study = read_study(path)
    # small batches: how long it takes does not matter here
    quick = replace(study, setting=replace(study.setting, batch=2))
    assert seconds_a_step(quick) > 0


def test_a_run_started_in_the_background_of_a_shell_stays_deaf_to_ctrl_c():
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "from fedstep.cli import main; main(['list']); "
        "raise SystemExit(signal.getsignal(signal.SIGINT) != signal.SIG_IGN)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0
