"""What people bring works, or is refused in one line. What needs extras: test_brought_extras.py."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset

import fedstep
from fedstep.data import Pad, clients_from
from fedstep.execute import Cohort, Sequential

SIZE = 12


def clients(n=4, size=SIZE, dtype=torch.float32):
    g = torch.Generator().manual_seed(1)
    made = []
    for _ in range(n):
        x = torch.randn(size, 4, generator=g).to(dtype)
        made.append((x, (x[:, 0] > 0).long()))
    return made


def net(outputs=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, outputs))


def train(model, data, method="fedsls", rounds=3, **options):
    options = {"local_steps": 3, "batch": 5, **options}
    return fedstep.fit(model, data, method, rounds, progress=False, **options)


def learns(result):
    assert torch.isfinite(result.x).all()
    assert result.rows[-1].loss < result.rows[0].loss
    return result


class Samples(Dataset):
    """Samples by number; each passes through a function first."""

    def __init__(self, data, change=lambda sample: sample):
        self.data, self.change = data, change

    def __len__(self):
        return len(self.data[0])

    def __getitem__(self, number):
        return self.change(tuple(field[number] for field in self.data))


def noisy(sample):
    x, y = sample
    return x + 0.1 * torch.randn(x.shape) + random.random() + np.random.rand(), y


class Keywords(nn.Module):
    """A module in the manner of Hugging Face: labels in, loss and logits out."""

    def __init__(self, with_loss=True):
        super().__init__()
        self.inner, self.with_loss = net(), with_loss

    def forward(self, values, scale=None, labels=None):
        if scale is not None:
            values = values * scale
        logits = self.inner(values)
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits} if self.with_loss else {"logits": logits}


class Tagger(nn.Module):
    """A label for every token."""

    def __init__(self, classes=3):
        super().__init__()
        self.embed, self.out = nn.Embedding(9, 8), nn.Linear(8, classes)

    def forward(self, tokens):
        return self.out(self.embed(tokens)).movedim(-1, 1)


def sentences(n=10, seed=0):
    g = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(n):
        tokens = torch.randint(9, (int(torch.randint(2, 7, (), generator=g)),), generator=g)
        made.append((tokens, tokens % 3))
    return made


LOSSES = {
    "name": "mse",
    "class": nn.MSELoss,
    "module": nn.MSELoss(),
    "function": nn.functional.mse_loss,
    "of output and batch": lambda output, batch: (output - batch.targets) ** 2,
}


@pytest.mark.parametrize("kind", LOSSES)
def test_every_way_to_give_a_loss_is_the_same_loss(kind):
    data = [(x, x[:, :1]) for x, _ in clients()]
    result = train(net(1), data, loss=LOSSES[kind], executor=Sequential())
    same = train(net(1), data, loss=nn.functional.mse_loss, executor=Sequential())
    assert torch.allclose(result.x, same.x, rtol=1e-5, atol=1e-6)


def test_named_losses_do_not_broadcast_targets_of_another_shape():
    flat_targets = [(x, x[:, 0]) for x, _ in clients()]
    columns = [(x, x[:, :1]) for x, _ in clients()]
    for loss in ("mse", "bce"):
        ends = [train(net(1), data, loss=loss).x for data in (flat_targets, columns)]
        assert torch.equal(*ends)
    learns(train(net(1), clients(), loss="bce"))  # whole numbers are 0 and 1


def test_cross_entropy_by_name_is_the_default():
    ends = [train(net(), clients(), **given).x for given in ({}, {"loss": "cross_entropy"})]
    assert torch.equal(*ends)


def test_weighting_is_one_word_and_stands_in_the_summary():
    data = [*clients(3), clients(1, 40)[0]]
    equal, by_samples = (train(net(), data, weighting=w) for w in (None, "samples"))
    assert not torch.equal(equal.x, by_samples.x)
    assert "every client counts the same (weighting='samples'" in str(equal)
    assert "counts by its number of samples" in str(by_samples)
    named = train(net(), data, "fedsls(weighting=BySamples())")
    assert torch.equal(named.x, by_samples.x)


def test_modes_set_by_the_user_are_kept():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.5), nn.Linear(16, 2))
    without = nn.Sequential(model[0], nn.Identity(), model[2])
    quiet = train(model.eval(), clients(), executor=Sequential())
    assert torch.equal(quiet.x, train(without, clients(), executor=Sequential()).x)
    loud = train(model.train(), clients(), executor=Sequential())
    assert not torch.equal(quiet.x, loud.x)
    assert model.training


def test_a_frozen_batch_norm_is_a_constant():
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2))
    model[1].running_mean.fill_(0.5)
    with pytest.raises(fedstep.InputError, match=r"running statistics in 1.*layer\.eval\(\)"):
        train(model, clients())
    model[1].eval()
    result = learns(train(model, clients()))
    assert torch.equal(result.model[1].running_mean, torch.full((6,), 0.5))
    assert not torch.equal(result.model[1].weight, model[1].weight)  # scale and shift are trained


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_of_16_bits_is_trained_in_32(dtype):
    result = learns(train(net().to(dtype), clients(), rounds=5))
    assert result.x.dtype == torch.float32
    assert result.model[0].weight.dtype == dtype


def test_parameters_of_several_types_are_one_vector():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 6), nn.Linear(6, 2).to(torch.bfloat16)

        def forward(self, x):
            return self.last(self.first(x).tanh().bfloat16())

    result = learns(train(Mixed(), clients(), rounds=5))
    assert result.model.last.weight.dtype == torch.bfloat16


def test_double_models_take_single_data_and_the_other_way_round():
    double = train(net().double(), clients())
    assert double.x.dtype == torch.float64
    assert "float32 cast to float64" in str(double)
    single = train(net(), [(x.double().numpy(), y.numpy()) for x, y in clients()])
    assert torch.equal(single.x, train(net(), clients()).x)
    assert "float64 cast to float32" in str(single)


def test_complex_parameters_are_pairs_of_real_ones():
    class Wave(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.weight = nn.Parameter(torch.randn(4, 2, dtype=torch.complex64))

        def forward(self, x):
            return (x.to(torch.complex64) @ self.weight).abs()

    result = train(Wave(), clients(), rounds=2)
    assert result.x.numel() == 2 * 4 * 2
    model = fedstep.ModuleModel(Wave())
    x = model.init().double().requires_grad_()
    batch = fedstep.Batch(clients()[0], torch.tensor(1.0), torch.tensor(0))
    (gradient,) = torch.autograd.grad(model.one(x, batch).loss, x)
    for number in (0, 5):
        along = 1e-2 * nn.functional.one_hot(torch.tensor(number), 16)
        rise = (model.one(x + along, batch).loss - model.one(x - along, batch).loss).detach()
        assert float(gradient[number]) == pytest.approx(float(rise) / 2e-2, rel=1e-2, abs=1e-4)
    assert torch.allclose(torch.view_as_real(result.model.weight).reshape(-1), result.x)


def test_sparse_embeddings_train_like_dense_ones():
    def made(sparse):
        torch.manual_seed(0)
        return nn.Sequential(nn.Embedding(9, 4, sparse=sparse), nn.Flatten(), nn.Linear(12, 2))

    g = torch.Generator().manual_seed(0)
    data = []
    for _ in range(3):
        tokens = torch.randint(9, (SIZE, 3), generator=g)
        data.append((tokens, tokens[:, 0] % 2))
    model = made(sparse=True)
    ends = [train(model, data).x, train(made(sparse=False), data).x]
    assert torch.equal(*ends)
    assert model[0].sparse  # what was given is as it was


@pytest.mark.filterwarnings("ignore")
def test_the_older_activation_checkpointing_is_refused_in_one_line():
    class Saving(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net()

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=True)

    with pytest.raises(fedstep.InputError, match=r"checkpoint\(\.\.\., use_reentrant=False\)"):
        train(Saving(), clients())


def test_a_module_that_takes_labels_computes_its_own_loss():
    data = [{"values": x, "labels": y} for x, y in clients()]
    result = train(Keywords(), data, test=data[0], executor=Sequential())
    plain = train(net(), clients(), test=clients()[0], executor=Sequential())
    assert torch.allclose(result.x, plain.x, rtol=1e-5, atol=1e-6)
    assert result.rows[-1].accuracy == plain.rows[-1].accuracy
    assert result.rows[-1].test_loss == pytest.approx(plain.rows[-1].test_loss, rel=1e-5)
    with pytest.raises(fedstep.InputError, match="gives no loss of its own"):
        train(Keywords(with_loss=False), data, executor=Sequential())


def test_columns_that_a_model_does_not_take_are_left_out_and_named():
    data = []
    for x, y in clients():
        data.append(
            {"idx": torch.arange(SIZE), "values": x, "scale": 2 * torch.ones(SIZE, 1), "label": y}
        )
    result = train(Keywords(), data, executor=Sequential())
    assert "columns left out: idx" in str(result)
    doubled = train(net(), [(2 * x, y) for x, y in clients()], executor=Sequential())
    assert torch.allclose(result.x, doubled.x, rtol=1e-5, atol=1e-6)


def test_dicts_serve_a_model_that_is_called_by_position():
    data = {"north": {"x": 0, "y": 1}, "south": {"x": 0, "y": 1}}
    for name, (x, y) in zip(data, clients(2), strict=True):
        data[name] = {"pixels": x, "y": y}
    assert torch.equal(train(net(), data).x, train(net(), clients(2)).x)


def test_a_loss_of_output_and_batch_sees_names():
    seen = []

    def loss(output, batch):
        seen.append(sorted(batch))
        return nn.functional.cross_entropy(output["logits"], batch["labels"])

    data = [{"values": x, "labels": y} for x, y in clients()]
    result = train(Keywords(), data, loss=loss, executor=Sequential())
    assert seen[0] == ["labels", "values"]
    own = train(Keywords(), data, executor=Sequential())
    assert torch.equal(result.x, own.x)


def test_an_augmenting_dataset_is_read_anew_with_the_same_bits_for_any_number_of_workers():
    data = [Samples(c, noisy) for c in clients()]
    ends = [train(net(), data, executor=Sequential(), rounds=2)]
    # after a first run: modules that are imported on the way may draw
    before = random.getstate(), torch.get_rng_state()
    for workers in (1, 2):
        ends.append(train(net(), data, executor=Sequential(), workers=workers, rounds=2))
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
    assert all(torch.equal(ends[0].x, end.x) for end in ends)
    assert "a batch at a time: they are random" in str(ends[0])
    frozen = [tuple(map(torch.stack, zip(*[d[k] for k in range(SIZE)], strict=True))) for d in data]
    assert not torch.equal(ends[0].x, train(net(), frozen, rounds=2).x)


def test_a_dataset_with_a_generator_of_its_own_is_not_frozen_and_is_told():
    rng = np.random.default_rng(0)
    data = [
        Samples(c, lambda sample: (sample[0] + float(rng.random()), sample[1])) for c in clients(2)
    ]
    assert "a generator of their own" in str(train(net(), data, rounds=1))


def test_the_random_numbers_of_an_augmentation_do_not_depend_on_the_block():
    data = [Samples(c, noisy) for c in [*clients(2), *clients(1, 7)]]
    ends = [train(net(), data, executor=e, rounds=1).x for e in (Sequential(), Cohort())]
    assert torch.allclose(*ends, rtol=1e-4, atol=1e-5)


def test_a_dataset_without_randomness_is_read_once():
    reads = []

    def counted(sample):
        reads.append(1)
        return sample

    data = [Samples(c, counted) for c in clients()]
    result = train(net(), data)
    assert len(reads) <= len(data) * (SIZE + 5)  # a few to find out what they are
    assert torch.equal(result.x, train(net(), clients()).x)
    assert "samples lie in memory" in str(result)


def test_a_dataset_larger_than_the_limit_is_read_a_batch_at_a_time(monkeypatch):
    monkeypatch.setattr("fedstep.data.brought.MEMORY", 100)
    data = [Samples(c) for c in clients()]
    test = Samples(clients(1)[0])
    result = train(net(), data, test=test)
    plain = train(net(), clients(), test=clients(1)[0])
    assert torch.equal(result.x, plain.x)
    assert result.rows[-1].accuracy == plain.rows[-1].accuracy
    assert "a batch at a time: about" in str(result)


def test_a_resumed_run_over_other_samples_is_refused(tmp_path):
    def fit(change, **options):
        data = [Samples(c, change) for c in clients()]
        return train(net(), data, out=tmp_path, **options)

    fit(noisy)
    with pytest.raises(fedstep.InputError, match="another run"):
        fit(lambda sample: noisy((2 * sample[0], sample[1])))


def test_padding_counts_for_nothing():
    data = [sentences(10, seed) for seed in range(3)]
    short = [[s for s in one if len(s[0]) == 4] * 3 for one in data]
    assert all(short)
    whole = [tuple(map(torch.stack, zip(*one, strict=True))) for one in short]
    torch.manual_seed(0)
    model = Tagger()
    # sequences of one length: with and without padding to 6 is the same run

    def longer(samples):
        tokens, labels = Pad()(samples)
        more = 6 - tokens.shape[1]
        fill = nn.functional.pad
        return fill(tokens, (0, more), value=5), fill(labels, (0, more), value=-100)

    loss = nn.functional.cross_entropy
    padded = train(model, short, loss=loss, collate=longer, test=short[0], batch=3)
    plain = train(model, whole, loss=loss, test=whole[0], batch=3, executor=Sequential())
    assert torch.allclose(padded.x, plain.x, rtol=1e-4, atol=1e-5)
    assert padded.rows[-1].accuracy == pytest.approx(plain.rows[-1].accuracy)
    assert padded.rows[-1].test_loss == pytest.approx(plain.rows[-1].test_loss, rel=1e-4)
    learns(train(model, data, collate=Pad(), rounds=5))


def test_ignored_targets_count_for_nothing_in_training_and_in_scores():
    data = []
    for x, y in clients():
        hidden = y.clone()
        hidden[::3] = -100
        data.append((x, hidden))
    kept = [(x[y >= 0], y[y >= 0]) for x, y in data]
    options = dict(batch=SIZE, local_steps=2)  # whole clients: the same samples in every step
    for executor in (Sequential(), Cohort()):
        with_gaps = train(net(), data, test=data[0], executor=executor, **options)
        without = train(net(), kept, test=kept[0], executor=executor, **options)
        assert torch.allclose(with_gaps.x, without.x, rtol=1e-4, atol=1e-5)
        one, two = with_gaps.rows[-1], without.rows[-1]
        assert one.accuracy == pytest.approx(two.accuracy)
        assert one.test_loss == pytest.approx(two.test_loss, rel=1e-4)


def test_another_number_may_be_the_ignored_one():
    data = [(x, torch.where(torch.arange(SIZE) % 3 == 0, 2, y)) for x, y in clients()]
    kept = [(x[y != 2], y[y != 2]) for x, y in data]
    loss = nn.CrossEntropyLoss(ignore_index=2)
    options = dict(batch=SIZE, local_steps=2, loss=loss)
    with_gaps = train(net(3), data, test=data[0], **options)
    without = train(net(3), kept, test=kept[0], **options)
    assert torch.allclose(with_gaps.x, without.x, rtol=1e-4, atol=1e-5)
    assert with_gaps.rows[-1].accuracy == pytest.approx(without.rows[-1].accuracy)


def test_a_linear_model_leaves_ignored_targets_out_too():
    data = [(x, torch.where(torch.arange(SIZE) % 3 == 0, -100, y)) for x, y in clients()]
    kept = [(x[y >= 0], y[y >= 0]) for x, y in data]
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    ends = [train(model, d, batch=SIZE, local_steps=1) for d in (data, kept)]
    assert torch.allclose(ends[0].x, ends[1].x, rtol=1e-4, atol=1e-5)


def test_a_list_of_samples_and_a_loader_are_clients():
    lists = [list(zip(*c, strict=True)) for c in clients()]
    loaders = [DataLoader(Samples(c), batch_size=2) for c in clients()]
    custom = [DataLoader(Samples(c), collate_fn=Pad()) for c in clients()]
    plain = train(net(), clients(), executor=Sequential()).x
    for data in (lists, loaders, custom):
        assert torch.equal(train(net(), data, executor=Sequential()).x, plain)


def table(n=60):
    rng = np.random.default_rng(0)
    age = rng.integers(20, 80, n)
    dose = 1000 * rng.random(n)
    return {
        "hospital": np.array([f"h{k % 3}" for k in range(n)]),
        "age": age,
        "dose": dose,
        "y": (dose > 500).astype(np.int64),
    }


def test_clients_from_a_table(capsys):
    made = clients_from(table(), client="hospital", target="y")
    line = capsys.readouterr().err
    assert "age: int64 cast to float32" in line
    assert "dose: float64 cast to float32" in line
    assert line.count("\n") == 1
    assert made.sizes.tolist() == [20, 20, 20]
    assert made.fields[0].dtype == torch.float32
    assert made.fields[1].dtype == torch.int64
    assert torch.equal(
        made.fields[0][made.parts[1]][:, 0], torch.tensor(table()["age"][1::3]).float()
    )
    result = train(nn.Linear(2, 2), made, test=made, standardize=True, rounds=10)
    assert result.rows[-1].accuracy > 0.8


def test_clients_from_a_csv_file_equal_those_of_the_columns(tmp_path, capsys):
    columns = table()
    rows = [",".join(columns)]
    rows += [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    file = tmp_path / "visits.csv"
    file.write_text("\n".join(rows))
    one, two = (clients_from(t, client="hospital", target="y") for t in (columns, str(file)))
    assert all(torch.equal(a, b) for a, b in zip(one.fields, two.fields, strict=True))


def test_standardize_has_the_moments_of_the_whole_federation_and_stays_with_the_model():
    data = [(1e3 * (k + 1) + torch.randn(10 + k, 4), torch.arange(10 + k) % 2) for k in range(3)]
    result = train(net(), data, standardize=True)
    everything = torch.cat([x for x, _ in data]).double()
    layer = result.model[0]
    assert torch.allclose(layer.mean.double(), everything.mean(0), rtol=1e-6)
    assert torch.allclose(layer.deviation.double(), everything.std(0, unbiased=False), rtol=1e-6)
    by_hand = [((x - layer.mean) / layer.deviation, y) for x, y in data]
    assert torch.allclose(result.x, train(net(), by_hand).x, rtol=1e-4, atol=1e-5)
    assert {"0.mean", "0.deviation"} <= set(result.model.state_dict())


def test_a_standardized_linear_model_is_still_linear():
    result = train(nn.Linear(4, 2), clients(), standardize=True)
    assert result.recipe.flat.linear


class Endless(IterableDataset):
    def __iter__(self):
        yield from zip(*clients(1)[0], strict=True)


class Broken(Samples):
    def __getitem__(self, number):
        raise OSError("no such picture")


REFUSED = {
    "a stream": (dict(clients=[Endless()]), "client 0 is an IterableDataset"),
    "unequal lengths": (dict(clients=[sentences()]), "client 0: samples differ in shape.*collate"),
    "a table": (dict(clients=type("Frame", (), {"columns": ["a"]})()), r"clients_from\(table"),
    "splits": (
        dict(clients={"train": clients()[0], "test": clients()[0]}),
        r"dict of splits \(train, test\).*clients_from",
    ),
    "a loader": (dict(clients=DataLoader(Samples(clients()[0]))), "clients is a DataLoader"),
    "a misspelt loss": (dict(loss="mze"), "unknown loss 'mze': did you mean mse"),
    "a loss that needs arguments": (
        dict(loss=type("Needs", (nn.Module,), {"__init__": lambda self, k: None})),
        "loss=Needs: give an instance",
    ),
    "no loss": (dict(loss=3), "loss=3: give a name such as 'mse'"),
    "a misspelt weighting": (dict(weighting="sample"), "unknown weighting.*did you mean samples"),
    "fractions as classes": (
        dict(clients=[(x, x[:, 0]) for x, _ in clients()]),
        "give loss='mse'",
    ),
    "a model that returns a tuple": (
        dict(model=type("Two", (nn.Linear,), {"forward": lambda s, x: (x, x)})(4, 2)),
        r"Two returns a tuple.*loss of the output and the batch",
    ),
    "stacked ragged batches": (
        dict(clients=[sentences()], model=Tagger(), collate=Pad(), executor=Cohort()),
        "made by collate may differ in shape",
    ),
    "columns without a target": (dict(clients=[{"a": clients()[0][0]}]), "rename the target"),
    "columns of unequal length": (
        dict(clients=[{"a": torch.zeros(3, 4), "y": torch.zeros(2)}]),
        "columns differ in length",
    ),
    "columns that do not fit": (
        dict(
            clients=[
                {
                    "a": torch.zeros(3, 4),
                    "b": torch.zeros(3),
                    "c": torch.zeros(3),
                    "y": torch.zeros(3),
                }
            ]
        ),
        r"columns a, b, c do not fit forward\(input\)",
    ),
    "mixed forms": (
        dict(clients=[clients()[0], {"a": clients()[0][0], "y": clients()[0][1]}]),
        "client 1 has samples that are dicts.*give all in one form",
    ),
    "texts to standardize": (
        dict(clients=[(torch.zeros(3, 4).long(), torch.zeros(3).long())], standardize=True),
        "Standardize: inputs of torch.int64",
    ),
    "collate that loses samples": (
        dict(clients=[sentences()], model=Tagger(), collate=lambda s: Pad()(s[:1])),
        "give one row a sample",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_in_one_line(case):
    options, message = REFUSED[case]
    with pytest.raises(fedstep.InputError, match=message) as caught:
        train(**{"model": net(), "data": options.pop("clients", clients()), **options})
    assert "\n" not in str(caught.value)


def test_a_dataset_that_raises_is_named():
    with pytest.raises(fedstep.InputError, match=r"client 1: sample 0 cannot.*no such picture"):
        train(net(), [clients()[0], Broken(clients()[0])])


TABLES = {
    "no such column": (dict(client="site"), "unknown column 'site'"),
    "a text among the inputs": (dict(extra=np.array(["x"] * 60)), "column 'extra' is <U1.*encode"),
    "a gap": (dict(extra=np.array([np.nan] * 60)), "'extra': 60 of 60 values are missing"),
    "no table": (dict(table=3), "int is no table"),
    "no file": (dict(table="nowhere.csv"), "nowhere.csv: there is no such file"),
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_are_refused_in_one_line(case):
    options, message = TABLES[case]
    columns = table()
    if "extra" in options:
        columns["extra"] = options["extra"]
    with pytest.raises(fedstep.InputError, match=message):
        clients_from(options.get("table", columns), options.get("client", "hospital"), "y")
