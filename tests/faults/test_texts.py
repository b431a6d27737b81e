"""Texts that people write, mutated: a study file, a method. Whatever comes of it, it is an InputError of one line."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

import pytest

from fedstep.core.errors import InputError
from fedstep.spec import build, methods
from fedstep.study.study_file import parse_study
from fedstep.study.work import prepare

STUDY = """
title = "A study"
text = "For tests."
data = "synthetic"
model = "logistic(inputs=40, classes=10)"
partition = "Dirichlet(alpha=0.3, clients=10)"
rounds = 20
per_round = 5
steps = 2
batch = 10
every = 5
limit = 8
eval_limit = 100
weighting = "samples"
train_loss = false
metrics = ["accuracy", "top_k(k=5)"]
seeds = [0, 1]
[tuning]
rounds = 10
seed = 1000
[scales.small]
rounds = 3
tuning = { rounds = 2 }
[[methods]]
label = "FedAvg"
spec = "fedavg(step={step})"
grid = { step = [0.01, 0.1, 1] }
published = { accuracy = [0.7, 0.1] }
[[methods]]
label = "FedSLS"
spec = "fedsls(c=0.5, reset=Restart())"
varied = { c = 0.5 }
family = "FedSLS"
"""
SPECS = [
    "fedsls(c=0.5)",
    "fedexpsls(c=0.1, reset=Restart(), max_step=10.0)",
    "fedavg(step=LineSearch(), server=Extrapolate(eps=0.001), guard=NormLimit(factor=3))",
    "fedavg(terms=(Proximal(mu=0.1), Proximal(mu=1)), codec=ErrorFeedback(codec=TopK(fraction=0.1)))",
    "authors.fedsls_goldstein",
    "fedadam(step=1e-2, server_step=0.1, tau=1e-4)",
]
# What mutations put in: ends of ranges, other types, other people's syntax, markup, formats.
PIECES = [
    *"()[]{},.=\"'#-+*/\\\n \0<>&:;@%$!",
    *("0", "-1", "1e400", "nan", "inf", "-inf", "10000000000000000000000", "1e-320", "True", "None"),
    *("true", "[]", "{}", '""', "'''", "1979-05-27", "0x10", "{step}", "{s:>4000000000}", "{0}", "{}"),
    *("-" * 600, "(" * 300, "[" * 3000, "not " * 300, "lambda: 0", "__import__('os')", "fedavg", "step"),
    *("[/b]", "<script>", "\x1b[31m", "é", "\ud7ff", "[[methods]]", "[scales]", "seeds = 7\n", "x" * 5000),
    *("steps = 9\n", "c=", "**{'a': 1}", "*[1]", "a.b.c(", "for x in y", "1_000", "9" * 5000, "1e9", "0.1.2"),
]  # fmt: skip


def mutated(text: str, draw: random.Random) -> str:
    """Between one and four cuts, repetitions and insertions."""
    for _ in range(draw.randint(1, 4)):
        begin = draw.randrange(len(text) + 1)
        end = min(len(text), begin + draw.randint(0, 12))
        kind = draw.randrange(4)
        if kind == 0:
            text = text[:begin] + text[end:]
        elif kind == 1:
            text = text[:end] + text[begin:end] * draw.randint(1, 3) + text[end:]
        else:
            text = text[:begin] + draw.choice(PIECES) + text[end if kind == 2 else begin :]
    return text


def refusal(ask: Callable[[], object]) -> str:
    """What is refused, and why; nothing where the text is a good one."""
    try:
        ask()
    except InputError as error:
        return str(error)
    return ""


def complaint(ask: Callable[[], object]) -> str | None:
    """What is wrong with the answer to a text; None where nothing is."""
    try:
        message = refusal(ask)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if "\n" in message or len(message) > 5000:
        return f"{len(message)} characters: {message[:300]!r}"
    return None


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_mutated_method_is_one_line(count):
    draw = random.Random(0)
    names = [f"{name}(step=0.1, c=0.1)" for name in methods()]
    complaints = {}
    for _ in range(count):
        spec = mutated(draw.choice([*SPECS, *names]), draw)
        complaints[spec] = complaint(partial(build, spec))
    assert not {spec: told for spec, told in complaints.items() if told is not None}


@pytest.mark.parametrize("count", [40, pytest.param(3_000, marks=pytest.mark.slow)])
def test_a_mutated_study_is_one_line(count, tmp_path):
    draw = random.Random(0)
    complaints = {}
    for _ in range(count):
        data = mutated(STUDY, draw).encode("utf-8", "surrogatepass")
        complaints[data] = complaint(
            lambda data=data: prepare(parse_study(tmp_path / "study.toml", data))
        )
    assert not {data: told for data, told in complaints.items() if told is not None}


def test_the_study_that_is_mutated_is_a_study(tmp_path):
    assert parse_study(tmp_path / "s.toml", STUDY.encode()).methods[0].candidates() == [
        "fedavg(step=0.01)",
        "fedavg(step=0.1)",
        "fedavg(step=1)",
    ]


@pytest.mark.parametrize("sign", ["-", "+", "not ", "~"])
def test_a_tower_of_signs_is_refused(sign):
    with pytest.raises(InputError, match="fedavg"):
        build(f"fedavg(step={sign * 500}1)")
    with pytest.raises(InputError):
        build(sign * 500 + "fedavg")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("rounds = 20", "rounds = '20'", "rounds = '20': give a whole number, 1 or more"),
        ("rounds = 20", "rounds = 0", "rounds = 0: give a whole number, 1 or more"),
        ("rounds = 20", "rounds = 1e3", "rounds = 1000.0: give a whole number"),
        ("rounds = 20", "rounds = 99999999999999", "give a whole number, 1 or more"),
        ("rounds = 10\nseed = 1000", "seed = '<b>'", "tuning: seed = '<b>': give a whole number"),
        ("limit = 8", "limit = true", "limit = True: give a whole number"),
        ("seeds = [0, 1]", "seeds = [0, 0]", "give different whole numbers"),
        ("seeds = [0, 1]", "seeds = []", "give different whole numbers"),
        ("weighting = \"samples\"", "weighting = 'sampels'", "give 'equal' or 'samples'"),
        ("train_loss = false", "train_loss = 1", "train_loss = 1: give true or false"),
        ("metrics = [\"accuracy\",", "metrics = [3,", "give a list of texts"),
        ("label = \"FedAvg\"", "label = 3", "method 1: label = 3: give a text"),
        ("label = \"FedAvg\"\n", "", "method 1: missing: label"),
        ("[0.01, 0.1, 1]", "['a']", "give a table of lists of numbers"),
        ("{step}", "{step:>4000000000}", "does not fit its grid"),
        ("{step}", "{step!r}", "does not fit its grid"),
        ("{step}", "{other}", "does not fit its grid"),
        ("[tuning]", "[tunin]", "did you mean tuning"),
        ("tuning = { rounds = 2 }", "tuning = 3", "give a table"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_with_the_file_the_key_and_the_remedy(old, new, words, tmp_path):
    text = STUDY.replace(old, new)
    assert text != STUDY
    with pytest.raises(InputError) as told:
        parse_study(tmp_path / "mine.toml", text.encode(), "small")
    assert words in str(told.value)
    assert str(told.value).startswith(str(tmp_path / "mine.toml"))


def test_a_grid_of_a_billion_points_is_refused_before_it_is_made(tmp_path):
    grid = ", ".join(f"{name} = [{', '.join(map(str, range(1000)))}]" for name in "abc")
    text = STUDY.replace("fedavg(step={step})", "fedavg(step={a}{b}{c})")
    text = text.replace("{ step = [0.01, 0.1, 1] }", f"{{ {grid} }}")
    with pytest.raises(InputError, match="1,000,000,000 points"):
        parse_study(tmp_path / "s.toml", text.encode())


def test_a_model_that_no_memory_holds_is_one_line(tmp_path):
    text = STUDY.replace("inputs=40", f"inputs={10**14}")
    study = parse_study(tmp_path / "s.toml", text.encode())
    with pytest.raises(InputError, match=r"model 'logistic\(inputs=1.*cannot be made"):
        prepare(study)
