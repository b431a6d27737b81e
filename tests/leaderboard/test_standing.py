"""What an entry spends to reach a target."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import boards
import pytest

from fedstep.cli import main
from fedstep.core.errors import InputError
from fedstep.leaderboard.entry import read_entry, shipped_entries
from fedstep.leaderboard.match import Match
from fedstep.leaderboard.outcome import Spending, outcome_path, read_outcome
from fedstep.leaderboard.read import read_board
from fedstep.leaderboard.standing import ranked, standing_of
from fedstep.leaderboard.standings import roundup_markdown, roundups
from fedstep.leaderboard.track import read_track, shipped_tracks
from fedstep.run.columns import MetricInfo
from fedstep.study.work import prepare

FREE = Spending(0, 0, 0)
FLAT = [0.1] * boards.ROUNDS


def from_round(first, low=0.5, high=0.9):
    """Low until the round before `first`."""
    return [low if r < first else high for r in range(1, boards.ROUNDS + 1)]


def test_the_target_is_reached_by_the_mean_over_the_window():
    # 0.9 from round 8 on: the mean of three is 0.767 at round 9 and 0.9 at round 10
    made = boards.with_scores(boards.outcome(boards.SEARCH, 0.9), [from_round(8)] * 3)
    standing = standing_of(made)
    assert standing.reach.rounds == 10
    assert standing.reach.gradients == 1000
    assert standing.reach.megabytes == 5
    # one round above the target, however far, is noise
    spike = [*FLAT[:5], 2.0, *FLAT[6:]]
    assert not standing_of(boards.with_scores(made, [spike] * 3)).reached


def test_the_target_is_reached_by_the_mean_over_seeds():
    made = boards.outcome(boards.SEARCH, 0.9)
    # 0.8 = (0.9 + 0.9 + 0.6) / 3: two good seeds carry a worse one just there
    columns = [from_round(1), from_round(1), [0.61] * boards.ROUNDS]
    assert standing_of(boards.with_scores(made, columns)).reach.rounds == 3
    columns[2] = [0.59] * boards.ROUNDS
    assert standing_of(boards.with_scores(made, columns)).reach.rounds == inf


def test_a_seed_that_is_not_finite_is_not_dropped():
    made = boards.outcome(boards.SEARCH, 0.9)
    columns = [from_round(1), from_round(1), [None] * boards.ROUNDS]
    standing = standing_of(boards.with_scores(made, columns))
    assert not standing.reached
    assert standing.score.mean != standing.score.mean


def test_tuning_is_part_of_the_cost():
    made = boards.with_scores(boards.outcome(boards.AVG, 0.9), [from_round(1)] * 3)
    standing = standing_of(made)
    assert standing.total.rounds == 2 * 5 + 3
    assert standing.total.gradients == 2 * 500 + 300
    assert standing.total.megabytes == 2 * 2.5 + 1.5
    # who never gets there has paid the whole budget
    lost = standing_of(boards.with_scores(made, [FLAT] * 3))
    assert lost.total.rounds == inf
    assert lost.spent.rounds == 2 * 5 + boards.ROUNDS


def test_a_metric_of_which_less_is_better():
    # 0.5 from round 8 on: the mean of three is 0.767 at round 8, below the target of 0.8
    made = boards.with_scores(boards.outcome(boards.SEARCH, 0.9), [from_round(8, 0.9, 0.5)] * 3)
    error = MetricInfo("mean_squared_error", higher_is_better=False)
    assert standing_of(replace(made, metric=error)).reach.rounds == 8


def test_the_cheapest_is_first_and_those_who_never_arrive_follow_by_score():
    slow = boards.with_scores(boards.outcome(boards.SEARCH, 0.9), [from_round(15)] * 3)
    tuned = boards.with_scores(boards.outcome(boards.AVG, 0.9), [from_round(1)] * 3)
    lost = boards.with_scores(boards.outcome(boards.SEARCH, 0.9), [FLAT] * 3)
    worse = boards.with_scores(boards.outcome(boards.SEARCH, 0.9), [[0.05] * 20] * 3)
    broken = boards.with_scores(boards.outcome(boards.SEARCH, 0.9), [[None] * 20] * 3)
    standings = ranked([broken, worse, lost, slow, tuned, lost])
    assert [s.outcome for s in standings] == [tuned, slow, lost, lost, worse, broken]
    # equal ones share a place
    assert [s.place for s in standings] == [1, 2, 3, 3, 5, 6]


def test_seeds_are_drawn_from_what_decides_the_result_and_from_nothing_else():
    match = Match(boards.TRACK, boards.AVG)
    assert len({*match.seeds, match.tuning_seed}) == 4
    words = replace(boards.AVG, name="other", title="Other", who="they", licence="GPL", text="!")
    assert Match(boards.TRACK, words).seeds == match.seeds
    title = replace(boards.TRACK, title="Other", text="!")
    assert Match(title, boards.AVG).seeds == match.seeds
    for other in (
        Match(boards.TRACK, replace(boards.AVG, grid={"step": [0.1, 1.01]})),
        Match(boards.TRACK, replace(boards.AVG, spec="fedexp(step={step})")),
        Match(replace(boards.TRACK, target=0.81), boards.AVG),
        Match(replace(boards.TRACK, window=4), boards.AVG),
    ):
        assert not {*other.seeds, other.tuning_seed} & {*match.seeds, match.tuning_seed}


def test_a_result_that_was_changed_by_hand_is_refused(tmp_path):
    made = boards.outcome(boards.AVG, 0.9)
    path = outcome_path(tmp_path, made.match)
    boards.write(tmp_path, made)
    assert read_outcome(path) == made
    path.write_text(path.read_text().replace('"target": 0.8', '"target": 0.1'))
    with pytest.raises(InputError, match="checksum"):
        read_outcome(path)
    picked = [replace(run, seed=k) for k, run in enumerate(made.runs)]
    easier = replace(made.track, target=0.1)
    elsewhere = replace(made.tuning, spec="fedavg(step=7.0)")
    # what was chosen has 0.5, as has the other point
    second = replace(made.tuning, scores={**made.tuning.scores, "fedavg(step=1.0)": 0.6})
    for other, message in (
        (replace(made, runs=picked), "seeds"),
        (replace(made, track=easier), "not that of its rules"),
        (replace(made, tuning=elsewhere), "grid"),
        (replace(made, tuning=second), "not the best"),
        (replace(made, tuning=replace(made.tuning, scores={})), "every point"),
        (replace(made, tuning=replace(made.tuning, spent=FREE)), "spent 10 rounds"),
        (replace(made, runs=[replace(r, rounds=r.rounds[1:]) for r in made.runs]), "its track"),
        (replace(made, runs=[replace(r, scores=r.scores[1:]) for r in made.runs]), "its track"),
        (replace(made, tuning=replace(made.tuning, seed=1)), "tuning seed"),
    ):
        boards.write(tmp_path, replace(other, track=replace(other.track, name="hills")))
        with pytest.raises(InputError, match=message):
            read_outcome(path)


def test_results_by_other_rules_or_in_a_wrong_place_are_named_and_left_out(tmp_path):
    boards.write(tmp_path, boards.outcome(boards.AVG, 0.9))
    track = shipped_tracks()[0]
    other = replace(track, target=track.target / 2)
    boards.write(tmp_path, boards.outcome(boards.SEARCH, 0.9, other))
    (tmp_path / "hills" / "copy.json").write_bytes((tmp_path / "hills" / "avg.json").read_bytes())
    (tmp_path / "hills" / "torn.json").write_text("{")
    board = read_board(tmp_path)
    shown = {each.track.name: len(each.standings) for each in board.tracks}
    assert shown["hills"] == 1
    assert shown[track.name] == 0
    assert len(board.warnings) == 3


def test_a_place_among_few_on_a_large_track_is_not_averaged_with_one_among_many(tmp_path):
    large = replace(boards.TRACK, name="mountains", size="large")
    other = replace(boards.SEARCH, name="other")
    boards.write(
        tmp_path,
        boards.outcome(boards.SEARCH, 0.9),
        boards.outcome(other, 0.85),
        boards.outcome(boards.AVG, 0.8),
        boards.outcome(boards.AVG, 0.9, large),
    )
    small, alone = roundups(read_board(tmp_path))
    assert [(row.name, row.mean_place) for row in small.rows] == [
        ("search", 1),
        ("other", 2),
        ("avg", 3),
    ]
    # first of one there, which makes it no better on the small one
    assert [(row.name, row.mean_place) for row in alone.rows] == [("avg", 1)]
    assert "mountains" in roundup_markdown(alone)
    assert "mountains" not in roundup_markdown(small)


def test_a_board_without_results_says_how_to_make_one(tmp_path, capsys):
    assert main(["leaderboard", "list", "--markdown", "--home", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "no result yet: fedstep leaderboard run TRACK ENTRY" in shown.err


def test_what_ships_can_be_read():
    tracks = shipped_tracks()
    assert [track.size for track in tracks] == ["small"] * 5 + ["large"] * 4
    assert all(track.seeds >= 3 for track in tracks)
    # a quarter of the rounds a grid point
    assert all(4 * track.tuning.rounds == track.setting.rounds for track in tracks)
    entries = shipped_entries()
    for track in tracks:
        # its model and its partition can be made
        prepare(Match(track, entries[0]).study())
    points = {entry.name: len(entry.method.candidates()) for entry in entries}
    assert set(points.values()) == {1, 9}
    assert points["fedpace"] == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("seeds = 2", "seeds = 2: give a whole number, 3 to 100"),
        ("seeds = [0, 1, 2]", "3 to 100"),
        ("target = '0.9'", "target = '0.9'"),
        ("windows = 3", "did you mean window"),
        ("set_aside = 3", "unknown setting"),
        ("tuning = { rounds = 5 }", "clients"),
        ("size = 'huge'", "'small' or 'large'"),
    ],
)
def test_a_bad_track_is_one_line(tmp_path, line, message):
    key = line.split(" ")[0]
    good = {"title": "'t'", "target": "0.8", "tuning": "{ rounds = 5, clients = 2 }"}
    good |= {"data": "'synthetic'", "model": "'linear'"}
    lines = [f"{name} = {value}" for name, value in good.items() if name != key]
    path = tmp_path / "bad.toml"
    path.write_text("\n".join([*lines, line]))
    with pytest.raises(InputError, match=message) as caught:
        read_track(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("spec = 'fedav'", "did you mean fedavg"),
        ("spec = 'fedavg(step={step})'", "does not fit its grid"),
        ("who = ''", "who"),
        ("package = 'fedstep-that-nobody-has'", "pip install fedstep-that-nobody-has"),
        ("version = '1'", "leave it out"),
    ],
)
def test_a_bad_entry_is_one_line(tmp_path, line, message):
    key = line.split(" ")[0]
    good = {"title": "'t'", "spec": "'fedavg'", "who": "'we'", "licence": "'MIT'"}
    lines = [f"{name} = {value}" for name, value in good.items() if name != key]
    path = tmp_path / "bad.toml"
    path.write_text("\n".join([*lines, line]))
    with pytest.raises(InputError, match=message) as caught:
        read_entry(path)
    assert "\n" not in str(caught.value)


def test_nan_is_no_score():
    made = boards.with_scores(boards.outcome(boards.SEARCH, 0.9), [[nan] * 20] * 3)
    assert standing_of(made).reach.rounds == inf


def test_a_file_name_that_would_break_a_path_or_a_link_is_refused(tmp_path):
    text = "title = 't'\nspec = 'fedavg'\nwho = 'we'\nlicence = 'MIT'\n"
    for name in ("a b", "50%", "-x", "<b>"):
        path = tmp_path / f"{name}.toml"
        path.write_text(text)
        with pytest.raises(InputError, match="letters, digits, dots and hyphens"):
            read_entry(path)
