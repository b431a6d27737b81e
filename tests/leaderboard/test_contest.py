"""A tiny track from the command line: run, resume, verify, list."""

from __future__ import annotations

import json
from dataclasses import replace

import boards
import pytest

from fedstep.cli import main
from fedstep.leaderboard.contest import judge
from fedstep.leaderboard.outcome import read_outcome, write_outcome
from fedstep.run.cpu import cpu_kind
from fedstep.run.driver import program_versions
from fedstep.study.study_file import parse_study
from fedstep.study.study_text import study_text

TRACK = """
title = "Tiny"
target = 0.3
window = 2
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
partition = "Dirichlet(alpha=1.0, clients=8)"
rounds = 4
per_round = 3
steps = 3
batch = 20
every = 1
train_loss = false
tuning = { rounds = 2, clients = 2 }
"""
ENTRY = """
title = "Average"
spec = "fedavg(step={step})"
grid = { step = [1e-6, 0.1] }
who = "we"
licence = "MIT"
"""


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The folder of a tiny track and entry, with the result."""
    folder = tmp_path_factory.mktemp("board")
    (folder / "tiny.toml").write_text(TRACK)
    (folder / "mine.toml").write_text(ENTRY)
    home = folder / "home"
    assert run(folder, home) == 0
    return folder


def run(folder, home):
    files = [str(folder / "tiny.toml"), str(folder / "mine.toml")]
    return main(["leaderboard", "run", *files, "--home", str(home)])


def result(folder):
    return folder / "home" / "tiny" / "mine.json"


def test_a_result_holds_the_rules_the_runs_and_what_tuning_spent(played):
    made = read_outcome(result(played))
    assert made.tuning.spec == "fedavg(step=0.1)"
    assert made.tuning.spent.rounds == 4
    # 2 grid points x 2 rounds x 3 clients x 3 steps
    assert made.tuning.spent.gradients == 36
    assert [run.seed for run in made.runs] == list(made.match.seeds)
    assert [run.rounds for run in made.runs] == [[1, 2, 3, 4]] * 3
    assert made.runs[0].gradients == [9, 18, 27, 36]
    assert {run.cpu for run in made.runs} == {cpu_kind()}
    # the folder is that of a study, which other commands open
    assert main(["compare", str(result(played).with_suffix(""))]) == 0


def test_tuning_never_sees_a_test_sample(played):
    runs = result(played).with_suffix("") / "runs"
    made = read_outcome(result(played))
    final = {run.run for run in made.runs}
    trials = [folder for folder in runs.iterdir() if folder.name not in final]
    assert len(trials) == 2
    for folder in trials:
        rows = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
        assert all(row["accuracy"] is None for row in rows)
        assert rows[-1]["validation_accuracy"] in made.tuning.scores.values()


def test_what_is_done_is_not_done_again(played, monkeypatch):
    before = result(played).read_bytes()
    monkeypatch.setattr("fedstep.leaderboard.contest.run_whole", None)
    assert run(played, played / "home") == 0
    assert result(played).read_bytes() == before


def test_a_run_in_two_sittings_has_the_same_bits(played, tmp_path, monkeypatch):
    class Power(Exception):
        pass

    def cut(*arguments):
        raise Power

    with monkeypatch.context() as patch:
        patch.setattr("fedstep.leaderboard.contest.gather_outcome", cut)
        with pytest.raises(Power):
            run(played, tmp_path)
    assert run(played, tmp_path) == 0
    assert (tmp_path / "tiny" / "mine.json").read_bytes() == result(played).read_bytes()


def test_verify_finds_the_same_bits_and_says_when_it_does_not(played, tmp_path, capsys):
    assert main(["leaderboard", "verify", str(result(played)), "--number", "2"]) == 0
    assert "the same bits" in capsys.readouterr().out
    made = read_outcome(result(played))
    forged = replace(made, runs=[replace(run, model="0" * 64) for run in made.runs])
    path = tmp_path / "mine.json"
    write_outcome(path, forged)
    assert main(["leaderboard", "verify", str(path)]) == 1
    assert "DOES NOT AGREE" in capsys.readouterr().out
    assert main(["leaderboard", "verify", str(path), "--number", "3"]) == 2
    assert "3 seeds" in capsys.readouterr().err


def test_on_another_kind_of_cpu_the_score_is_compared():
    made = boards.outcome(boards.SEARCH, 0.9)
    recorded = made.runs[0]
    near = replace(recorded, model="1", scores=[s + 0.003 for s in recorded.scores])
    far = replace(recorded, model="1", scores=[s - 0.1 for s in recorded.scores])
    broken = replace(recorded, model="1", scores=[None] * len(recorded.scores))
    assert judge(made, recorded, near).agrees
    assert not judge(made, recorded, far).agrees
    assert not judge(made, recorded, broken).agrees
    # on this very machine the bits have to be the same
    here = replace(recorded, cpu=cpu_kind(), versions=program_versions())
    assert not judge(made, here, near).agrees
    assert judge(made, here, replace(near, model=recorded.model)).agrees


def test_list_names_tracks_entries_and_who_is_first(played, capsys):
    home = ["--home", str(played / "home")]
    assert main(["leaderboard", "list", *home]) == 0
    words = capsys.readouterr().out
    assert "digits-net" in words
    assert "fedpace" in words
    assert main(["leaderboard", "list", "--json", *home]) == 0
    listed = json.loads(capsys.readouterr().out)
    standing = next(each for each in listed["standings"] if each["track"] == "tiny")
    assert standing["entry"] == "mine"
    assert standing["tuning"]["rounds"] == 4


def test_a_misspelt_name_is_one_line(capsys):
    assert main(["leaderboard", "run", "digit-net", "fedavg"]) == 2
    assert "did you mean digits-net?" in capsys.readouterr().err
    assert main(["leaderboard", "run", "digits-net", "fedavk"]) == 2
    assert "did you mean fedav" in capsys.readouterr().err
    assert main(["leaderboard", "verify", "nowhere.json"]) == 2
    assert "there is no such result" in capsys.readouterr().err


def test_a_study_reads_back_from_its_own_text(tmp_path):
    made = boards.outcome(boards.AVG, 0.9).match.study()
    odd = 'say "no" \\ \x7f \t \n 😀 }]'
    method = replace(made.methods[0], label=odd, published={odd: [1.5, 2]}, varied={"c": 1e-9})
    setting = replace(made.setting, steps=None, epochs=2, metrics=("accuracy", "top_k(k=5)"))
    made = replace(made, title=odd, text=odd, methods=(method,), setting=setting)
    text = study_text(made)
    path = tmp_path / f"{made.name}.toml"
    assert parse_study(path, text.encode(), check=False) == made
