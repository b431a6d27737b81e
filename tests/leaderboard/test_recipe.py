"""docs/leaderboard.md followed literally, and its numbers held against the committed results."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fedstep.cli import main
from fedstep.leaderboard.read import read_board
from fedstep.leaderboard.track import TRACKS, read_track, shipped_tracks
from fedstep.leaderboard.words import target_text

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "leaderboard.md").read_text()


def block(kind):
    return re.search(rf"```{kind}\n(.*?)```", PAGE, re.S)[1]


def follow(folder, monkeypatch):
    """What the page says, line by line."""
    monkeypatch.chdir(folder)
    recipe = block("toml")
    (folder / "mine.toml").write_text(recipe)
    commands = block("sh").splitlines()
    assert len(recipe.splitlines()) + len(commands) <= 10
    for line in commands:
        words = shlex.split(line)
        assert words[0] == "fedstep"
        assert main(words[1:]) == 0
    assert (folder / "results" / "leaderboard" / "index.html").exists()


def test_the_recipe_works_as_it_stands(tmp_path, monkeypatch, capsys):
    # the track with fewer rounds and steps: the commands are the page's own
    text = (TRACKS / "digits-net.toml").read_text()
    for before, after in (
        ("rounds = 40", "rounds = 5"),
        ("rounds = 10", "rounds = 1"),
        ("steps = 10", "steps = 1"),
    ):
        assert before in text
        text = text.replace(before, after)
    tracks = tmp_path / "tracks"
    tracks.mkdir()
    (tracks / "digits-net.toml").write_text(text)
    monkeypatch.setattr("fedstep.leaderboard.track.TRACKS", tracks)
    follow(tmp_path, monkeypatch)
    assert "the same bits" in capsys.readouterr().out


@pytest.mark.slow
def test_the_recipe_works_on_the_real_track(tmp_path, monkeypatch, capsys):
    follow(tmp_path, monkeypatch)
    assert "the same bits" in capsys.readouterr().out


def test_no_committed_result_is_left_out():
    board = read_board(ROOT / "results" / "leaderboard")
    assert board.warnings == ()


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["fedavg", "fedsls", "scaffold"])
def test_a_seed_of_a_committed_result_comes_back(entry, capsys):
    path = ROOT / "results" / "leaderboard" / "clusters-noise" / f"{entry}.json"
    assert main(["leaderboard", "verify", str(path)]) == 0
    assert "agrees" in capsys.readouterr().out


def test_the_tracks_of_the_page_are_those_that_ship():
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| [^|]* \| ([^|]*) \| ([^|]*) \|$", PAGE, re.M)
    assert [name for name, _, _ in rows] != []
    tracks = {track.name: track for track in shipped_tracks()}
    assert {name for name, _, _ in rows} == set(tracks)
    for name, rounds, target in rows:
        track = tracks[name]
        assert target.startswith(target_text(track))
        assert rounds.startswith(f"{track.setting.rounds}, {track.setting.per_round} of")


def test_the_large_tracks_are_the_studies_they_are_named_after():
    from fedstep.cli.study import SHIPPED
    from fedstep.study.study_file import read_study

    studies = {
        "femnist": "femnist-pace",
        "shakespeare": "shakespeare-small",
        "cifar10": "cifar10-lenet",
        "cifar100": "cifar100-lenet",
    }
    for name, study in studies.items():
        ours = read_track(TRACKS / f"{name}.toml").setting
        theirs = read_study(SHIPPED / f"{study}.toml").setting
        # the loss over all clients is no part of the race
        same = [key for key in vars(ours) if key != "train_loss"]
        assert [getattr(ours, key) for key in same] == [getattr(theirs, key) for key in same]
