"""Every file that a run leaves anywhere: damaged, empty, of another run, or in the wrong place.

The right answer, or one line that names the file. `damage.py` has the folders that a flip and a cut
are done to; here are the others, and what no flip of a byte can do.
"""

from __future__ import annotations

import gzip
import json
import random
import shutil
import warnings
from contextlib import suppress

import damage
import pytest
import torch
from damage import Answer, Subject, compared, cut, done_again, drawn, exported, flip

import fedstep
from fedstep import InputError
from fedstep.callbacks import KeepBest
from fedstep.remote.memories import MemoryFiles
from fedstep.remote.order import run_name
from fedstep.run import driver, packed
from fedstep.run.files import read_sealed, write_sealed

ROUNDS = 6
RUN = "ab12"

TRACK = """
title = "Small"
target = 0.5
window = 2
seeds = 3
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
partition = "Iid(clients=6)"
rounds = 2
per_round = 2
steps = 1
batch = 5
every = 1
tuning = { rounds = 1, clients = 2 }
"""
ENTRY = """
title = "FedAvg"
spec = "fedavg(step={step})"
who = "somebody"
licence = "MIT"
[grid]
step = [0.1, 1.0]
"""


@pytest.fixture(autouse=True)
def checkpoint_after_every_round(monkeypatch):
    """Not by the clock: which files there are must not depend on it."""
    monkeypatch.setattr(driver, "SHARE", float("inf"))


def samples():
    g = torch.Generator().manual_seed(1)
    inputs = [torch.randn(6, 3, generator=g) for _ in range(4)]
    return [(x, (x[:, 0] > 0).long()) for x in inputs]


def net():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Linear(3, 2)


def train(**options):
    given = {"rounds": ROUNDS, "per_round": 2, "local_steps": 2, "batch": 3, "test": samples()[0]}
    return fedstep.fit(net(), samples(), "fedavg(step=0.5)", progress=False, **{**given, **options})


def answered(ask):
    """What is asked of Python, as an answer."""

    def question(folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return Answer(ask(folder))
            except InputError as error:
                return Answer(refusal=str(error))

    return question


def loaded(folder):
    result = fedstep.load(folder, net())
    rows = [repr(row) for row in result.rows]
    values = [value.tolist() for value in result.model.state_dict().values()]
    return result.x.tolist(), values, rows, result.settings


def tuned(folder):
    return fedstep.fine_tune(fedstep.load(folder, net()), samples()[0], 3).x.tolist()


def kept(folder, on_round=None):
    """A run that keeps its best model."""
    best = KeepBest(column="test_loss")
    result = train(out=folder, callbacks=[best], on_round=on_round)
    tensors = {name: value.tolist() for name, value in best.tensors.items()}
    return result.x.tolist(), best.best_round, best.value, tensors


def saved_result(place):
    place.mkdir(parents=True)
    train().save(place / "home")
    questions = {
        "load": answered(loaded),
        "fine_tune": answered(tuned),
        "export": exported,
        "report": drawn,
    }
    return Subject(place / "home", questions)


def finished_with_best(place):
    kept(place / "home")
    return Subject(place / "home", {"fit": answered(kept)})


def interrupted_with_best(place):
    def stop(row):
        if row.round == ROUNDS - 1:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        kept(place / "home", stop)
    return Subject(place / "home", {"fit": answered(kept)})


def entered(home):
    """An entry of the leaderboard, brought to its end."""
    track = home.parent / "track.toml"
    entry = home.parent / "entry.toml"
    track.write_text(TRACK)
    entry.write_text(ENTRY)
    answer = damage.command("leaderboard", "run", str(track), str(entry), "--home", str(home))
    if answer.refusal is not None:
        return answer
    return Answer((home / "track" / "entry.json").read_text())


def leaderboard(place):
    place.mkdir(parents=True)
    answer = entered(place / "home")
    assert answer.refusal is None, answer
    return Subject(place / "home", {"run": entered})


def leaderboard_without_outcome(place):
    subject = leaderboard(place)
    (subject.folder / "track" / "entry.json").unlink()
    return Subject(subject.folder, {"run": entered})


def profiled(home):
    home.parent.mkdir(parents=True, exist_ok=True)
    study = home.parent / "study-given.toml"
    study.write_text(damage.STUDY)
    answer = damage.command("run", str(study), "--out", str(home), "--profile", "--json")
    if answer.refusal is not None:
        return answer
    return Answer(len(json.loads(answer.value)["profiles"]))


def profiled_study(place):
    answer = profiled(place / "home")
    assert answer.refusal is None, answer
    return Subject(place / "home", {"run": profiled, "report": drawn})


SUBJECTS = {
    "saved result": saved_result,
    "finished with best": finished_with_best,
    "interrupted with best": interrupted_with_best,
}
SLOW_SUBJECTS = {
    **damage.SUBJECTS,
    "leaderboard": leaderboard,
    "leaderboard without outcome": leaderboard_without_outcome,
    "profiled study": profiled_study,
}


def empty(path, draw):
    path.write_bytes(b"")


def double(path, draw):
    path.write_bytes(2 * path.read_bytes())


def nested(path, draw):
    path.write_bytes(b"[" * 200_000)


def long_number(path, draw):
    path.write_bytes(b'{"round": ' + b"9" * 6000 + b"}\n")


def no_number(path, draw):
    path.write_bytes(b'{"round": NaN, "rounds": Infinity, "steps": [NaN]}\n')


def zeros(path, draw):
    path.write_bytes(bytes(path.stat().st_size))


def repeated_line(path, draw):
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(0, lines[0])
    path.write_bytes(b"".join(lines))


def lost_line(path, draw):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))


def other_text(path, draw):
    path.write_bytes(b"\xff\xfe" + path.read_bytes())


HARMS = {
    "empty": empty,
    "double": double,
    "nested": nested,
    "long number": long_number,
    "no number": no_number,
    "zeros": zeros,
    "repeated line": repeated_line,
    "lost line": lost_line,
    "other text": other_text,
}


def wrong_answers(subject, harms, place, often=1):
    """Every file, every harm, every question: what is neither right nor named."""
    right = {}
    for name, ask in subject.questions.items():
        copy = place / f"right {name}" / "home"
        shutil.copytree(subject.folder, copy)
        right[name] = ask(copy)
        assert right[name].refusal is None, right[name]
    wrong = []
    draw = random.Random(0)
    for original in damage.files(subject.folder):
        file = original.relative_to(subject.folder)
        for harm in [name for name in harms for _ in range(often)]:
            copy = place / "copy" / "home"
            shutil.copytree(subject.folder, copy)
            harms[harm](copy / file, draw)
            after = (copy / file).read_bytes()
            for name, ask in subject.questions.items():
                shutil.rmtree(copy)
                shutil.copytree(subject.folder, copy)
                (copy / file).write_bytes(after)
                # rows that are left of a run under way are fewer, and right
                unfinished = "interrupted" in str(subject.folder) and name == "export"
                found = verdict_of(ask, copy, file, right[name], unfinished)
                if found not in ("right", "named"):
                    wrong.append(f"{file}, {harm}, {name}: {found}")
            shutil.rmtree(copy.parent)
    return wrong


def verdict_of(ask, folder, file, right, unfinished):
    try:
        answer = ask(folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return damage.verdict(answer, right, folder / file, unfinished)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_file_that_is_damaged_anyhow_is_named_or_harmless(subject, tmp_path):
    made = SUBJECTS[subject](tmp_path / subject)
    # one harm of every kind, and a flip and a cut
    harms = {**HARMS, "flip": flip, "cut": cut}
    assert not wrong_answers(made, harms, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_flip_and_no_cut_of_these_files_is_believed(subject, tmp_path):
    made = SUBJECTS[subject](tmp_path / subject)
    assert not wrong_answers(made, {"flip": flip, "cut": cut}, tmp_path, often=20)


@pytest.mark.slow
@pytest.mark.parametrize("subject", SLOW_SUBJECTS)
def test_every_file_of_a_study_or_leaderboard_is_named_or_harmless(subject, tmp_path):
    made = SLOW_SUBJECTS[subject](tmp_path / subject)
    harms = {**HARMS, "flip": flip, "cut": cut}
    assert not wrong_answers(made, harms, tmp_path)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Two methods with two seeds, tuned."""
    home = tmp_path_factory.mktemp("swapped") / "home"
    before = damage.STUDY
    damage.STUDY = before.replace("seeds = [0]", "seeds = [0, 1]")
    answer = done_again(home)
    assert answer.refusal is None, answer
    yield home
    damage.STUDY = before


PARTS = {
    "all": ("spec.json", "done.json", "rounds.jsonl", "model.safetensors", "server.safetensors"),
    "all but the spec": ("done.json", "rounds.jsonl", "model.safetensors", "server.safetensors"),
    "rows": ("done.json", "rounds.jsonl"),
    "mark": ("done.json",),
    "spec": ("spec.json",),
}


def final_runs(home):
    """The runs of the study without those of its tuning."""
    found = []
    for folder in sorted((home / "runs").iterdir()):
        if read_sealed(folder / "spec.json")["setting"]["rounds"] == 3:
            found.append(folder.name)
    return found


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("question", [exported, compared, done_again])
def test_files_that_two_runs_have_exchanged_are_not_believed(question, part, study, tmp_path):
    copy = tmp_path / "home"
    shutil.copytree(study, copy)
    one, other = final_runs(copy)[:2]
    for name in PARTS[part]:
        first = copy / "runs" / one / name
        second = copy / "runs" / other / name
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    answer = question(copy)
    if answer.refusal is None:
        right = tmp_path / "right" / "home"
        shutil.copytree(study, right)
        assert answer == question(right)
    else:
        assert one in answer.refusal or other in answer.refusal


def test_a_packed_run_under_the_name_of_another_is_refused(study, tmp_path):
    path = tmp_path / "results.jsonl.gz"
    assert damage.command("export", str(study), "--pack", str(path)).refusal is None
    lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
    first = lines[0]["digest"]
    lines[0]["digest"], lines[1]["digest"] = lines[1]["digest"], lines[0]["digest"]
    path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    with pytest.raises(InputError, match=f"holds the rows of {first}"):
        packed.unpack(path)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 200_000,
        b'{"digest": 1',
        b'{"digest": "a", "spec": 3, "columns": {"round": [1]}}',
        b'{"digest": "a", "spec": {}, "columns": {"round": [1, 1]}}',
        b'{"digest": "a", "spec": {}, "columns": {"round": [NaN]}}',
        b'{"digest": "a", "spec": {}, "columns": [1]}',
        b"3",
    ],
)
def test_packed_results_that_cannot_be_are_one_line(text, tmp_path):
    path = tmp_path / "results.jsonl.gz"
    path.write_bytes(gzip.compress(text + b"\n"))
    with pytest.raises(InputError, match=r"results\.jsonl\.gz: not packed results"):
        packed.unpack(path)


def test_packed_results_that_unpack_to_too_much_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "LARGEST", 10**6)
    path = tmp_path / "results.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * 10**7))
    with pytest.raises(InputError, match="unpacks to more than 1,000,000 bytes"):
        packed.unpack(path)


def interrupted(folder, seed):
    def stop(row):
        if row.round == 4:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        train(out=folder, seed=seed, on_round=stop)


def test_checkpoint_and_rows_of_another_run_are_refused(tmp_path):
    interrupted(tmp_path / "ours", seed=0)
    interrupted(tmp_path / "other", seed=1)
    for path in (tmp_path / "other").iterdir():
        if path.name.startswith("checkpoint-") or path.name == "rounds.jsonl":
            shutil.copy(path, tmp_path / "ours" / path.name)
    with pytest.raises(InputError, match=r"checkpoint-0000003\.json: .*another run"):
        train(out=tmp_path / "ours")


def test_a_checkpoint_under_the_name_of_another_round_is_not_believed(tmp_path):
    interrupted(tmp_path / "run", seed=0)
    for path in (tmp_path / "run").glob("checkpoint-0000003.*"):
        shutil.copy(path, path.with_name(path.name.replace("3", "5")))
    with pytest.warns(UserWarning, match=r"checkpoint-0000005\.json: .*of round 3"):
        again = train(out=tmp_path / "run")
    assert torch.equal(again.x, train().x)


@pytest.mark.parametrize("harm", [repeated_line, lost_line])
def test_rows_that_stand_twice_or_are_missing_are_refused(harm, tmp_path):
    """Of a run that has no checkpoint any more: nothing but the rows speaks of them."""
    interrupted(tmp_path / "run", seed=0)
    for path in (tmp_path / "run").glob("checkpoint-*"):
        path.unlink()
    harm(tmp_path / "run" / "rounds.jsonl", None)
    answer = exported(tmp_path / "run")
    assert answer.refusal is not None
    assert "rounds.jsonl, line" in answer.refusal


def test_a_crash_between_the_files_of_the_best_model_is_survived(tmp_path, monkeypatch):
    calm = kept(tmp_path / "calm")
    plain = KeepBest._write

    def crash(self, folder):
        if self.best_round == calm[1]:
            before = (folder / "best.safetensors").read_bytes()
            plain(self, folder)
            # the description is there, the tensors are still those of the round before
            (folder / "best.safetensors").write_bytes(before)
            raise KeyboardInterrupt
        plain(self, folder)

    assert calm[1] > 1
    monkeypatch.setattr(KeepBest, "_write", crash)
    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "crashed")
    monkeypatch.undo()
    assert kept(tmp_path / "crashed") == calm


def test_a_nodes_memory_that_was_damaged_or_exchanged_is_lost(tmp_path):
    memories = MemoryFiles(tmp_path)
    for client in (1, 2):
        memories.put(RUN, client, 3, {"control": torch.full((5,), float(client))})
    assert memories.get(RUN, 1, 3)["control"].tolist() == [1.0] * 5
    one = tmp_path / RUN / "1" / "3.safetensors"
    other = tmp_path / RUN / "2" / "3.safetensors"
    whole = one.read_bytes()
    one.write_bytes(other.read_bytes())
    assert memories.get(RUN, 1, 3) is None
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        one.write_bytes(damaged)
        assert memories.get(RUN, 1, 3) is None, place


@pytest.mark.parametrize("text", ["", "xyz\n", "../..\n"])
def test_a_name_of_a_run_that_cannot_be_is_refused(text, tmp_path):
    (tmp_path / "run_id.txt").write_text(text)
    with pytest.raises(InputError, match=r"run_id\.txt"):
        run_name(tmp_path)


def test_another_name_of_a_run_is_refused(tmp_path):
    name = run_name(tmp_path)
    assert run_name(tmp_path) == name
    (tmp_path / "run_id.txt").write_text("0" * 32 + "\n")
    with pytest.raises(InputError, match=r"run_id\.txt: damaged"):
        run_name(tmp_path)


def test_a_sealed_file_without_a_needed_field_is_refused(tmp_path):
    write_sealed(tmp_path / "a.json", {"round": 1})
    assert read_sealed(tmp_path / "a.json", ("round",)) == {"round": 1}
    with pytest.raises(InputError, match=r"a\.json: damaged \(value missing\)"):
        read_sealed(tmp_path / "a.json", ("round", "value"))
