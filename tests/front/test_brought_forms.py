"""The forms in which people bring targets, inputs, losses and test sets; each works as it should.

test_brought.py and test_brought_extras.py have the other things, test_brought_refused.py the lines.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, random_split

import fedstep
from fedstep.execute import Cohort, Sequential

SIZE = 12


def clients(n=3, size=SIZE):
    g = torch.Generator().manual_seed(1)
    made = []
    for _ in range(n):
        x = torch.randn(size, 4, generator=g)
        made.append((x, (x[:, 0] > 0).long()))
    return made


def net(outputs=2):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, outputs))


def train(model, data, method="fedsls", rounds=2, **options):
    options = {"local_steps": 2, "batch": 5, **options}
    return fedstep.fit(model, data, method, rounds, progress=False, **options)


@pytest.fixture(scope="module")
def plain():
    return train(net(), clients(), test=clients()[0])


TARGETS = {
    "bool": lambda y: y.bool(),
    "int8": lambda y: y.to(torch.int8),
    "uint16 of numpy": lambda y: y.numpy().astype(np.uint16),
    "whole numbers as floats": lambda y: y.double(),
    "a column": lambda y: y[:, None],
    "one-hot": lambda y: functional.one_hot(y, 2),
    "one-hot floats": lambda y: functional.one_hot(y, 2).float(),
    "objects": lambda y: y.numpy().astype(object),
}


@pytest.mark.parametrize("form", TARGETS)
def test_targets_in_another_form_are_the_same_classes(form, plain):
    data = [(x, TARGETS[form](y)) for x, y in clients()]
    result = train(net(), data, test=data[0])
    assert torch.equal(result.x, plain.x)
    assert result.rows[-1].accuracy == plain.rows[-1].accuracy
    if form not in ("objects", "uint16 of numpy"):
        assert "targets: " in str(result)


def test_a_test_set_may_have_its_classes_in_another_form(plain):
    x, y = clients()[0]
    result = train(net(), clients(), test=(x, functional.one_hot(y, 2)))
    assert result.rows[-1].accuracy == plain.rows[-1].accuracy
    data = [(x, functional.one_hot(y, 2)) for x, y in clients()]
    result = train(net(), data, test=(x, y[:, None]))
    assert result.rows[-1].accuracy == plain.rows[-1].accuracy


def test_probabilities_as_targets_are_scored_by_the_most_probable_class():
    data = [(x, torch.softmax(3 * x[:, :2], 1)) for x, _ in clients()]
    result = train(net(), data, test=data[0])
    with torch.no_grad():
        right = result.model(data[0][0]).argmax(1) == data[0][1].argmax(1)
    assert list(result.rows[-1].test) == ["accuracy"]
    assert result.rows[-1].accuracy == pytest.approx(float(right.float().mean()))


INPUTS = {
    "objects": lambda x: np.array(x.tolist(), dtype=object),
    "lists": lambda x: x.tolist(),
    "with a gradient": lambda x: x.clone().requires_grad_(),
    "not contiguous": lambda x: x.T.contiguous().T,
}


@pytest.mark.parametrize("form", INPUTS)
def test_inputs_in_another_form_are_the_same_numbers(form, plain):
    data = [(INPUTS[form](x), y) for x, y in clients()]
    assert torch.equal(train(net(), data).x, plain.x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_whole_numbers_that_a_model_multiplies_are_cast_with_a_note(dtype):
    data = [((4 * x).clamp(min=0).to(dtype), y) for x, y in clients()]
    result = train(net(), data, test=data[0])
    assert "cast to float32, as the model takes them" in str(result)
    assert torch.equal(result.x, train(net(), [(x.float(), y) for x, y in data]).x)


def test_symbols_are_not_cast():
    model = nn.Sequential(nn.Embedding(9, 4), nn.Flatten(), nn.Linear(12, 2))
    data = [(torch.arange(3 * SIZE).view(SIZE, 3) % 9, torch.arange(SIZE) % 2)]
    result = train(model, data)
    assert "cast" not in str(result)
    small = train(model, [(x.to(torch.int8), y) for x, y in data])
    assert "inputs: int8 cast to int64" in str(small)
    assert torch.equal(small.x, result.x)


class Augmented(Dataset):
    """Samples of numpy with noise, in double precision."""

    def __init__(self, data):
        self.data = data

    def __len__(self):
        return SIZE

    def __getitem__(self, number):
        x = self.data[0][number].double().numpy()
        return x + 0.1 * np.random.randn(4), bool(self.data[1][number])


def test_samples_that_are_read_lazily_come_in_the_form_of_the_model():
    data = [Augmented(c) for c in clients()]
    result = train(net(), data, test=data[0])
    assert "a batch at a time" in str(result)
    assert torch.isfinite(result.x).all()
    assert 0 <= result.rows[-1].accuracy <= 1


LISTS = {
    "a generator": lambda data: (client for client in data),
    "a zip": lambda data: zip(*zip(*data, strict=True), strict=True),
    "a tuple": tuple,
    "by name": lambda data: dict(zip("abc", data, strict=True)),
    "TensorDatasets": lambda data: [TensorDataset(*client) for client in data],
    "loaders": lambda data: [DataLoader(TensorDataset(*c), shuffle=True) for c in data],
}


@pytest.mark.parametrize("form", LISTS)
def test_clients_in_another_form_are_the_same_clients(form, plain):
    assert torch.equal(train(net(), LISTS[form](clients())).x, plain.x)


def test_parts_of_a_dataset_are_clients():
    everything = TensorDataset(*(torch.cat(part) for part in zip(*clients(), strict=True)))
    same = [Subset(everything, range(k * SIZE, (k + 1) * SIZE)) for k in range(3)]
    assert torch.equal(train(net(), same).x, train(net(), clients()).x)
    train(net(), random_split(everything, [10, 20, 6]), rounds=1)
    train(net(), [ConcatDataset(same[:2]), same[2]], rounds=1)


TESTS = {
    "pairs": lambda data: data,
    "by name": lambda data: dict(zip("abc", data, strict=True)),
    "Datasets": lambda data: [TensorDataset(*client) for client in data],
}


@pytest.mark.parametrize("form", TESTS)
def test_every_client_may_have_its_own_test_set(form):
    result = train(
        net(), clients(), test=TESTS[form](clients()), scoring=fedstep.Scoring(clients=True)
    )
    assert "clients_worst_accuracy" in result.rows[-1].to_dict()


def test_a_loader_may_be_the_test(plain):
    result = train(net(), clients(), test=DataLoader(TensorDataset(*clients()[0]), batch_size=5))
    assert result.rows[-1].accuracy == plain.rows[-1].accuracy


NUMBER_LOSSES = [nn.MSELoss, nn.MSELoss(), functional.mse_loss, "l1", nn.L1Loss(), "huber"]


# without ids: the text of a function has its address, which differs between processes
@pytest.mark.parametrize("loss", NUMBER_LOSSES)
def test_losses_of_numbers_never_compare_all_pairs(loss):
    flat_targets = [(x, x[:, 0]) for x, _ in clients()]
    columns = [(x, x[:, :1]) for x, _ in clients()]
    ends = [train(net(1), data, loss=loss).x for data in (flat_targets, columns)]
    assert torch.equal(*ends)


def test_whole_numbers_that_are_no_classes_are_scored_as_numbers():
    data = [(x, (9 * x[:, 0]).long()) for x, _ in clients()]
    result = train(net(1), data, loss="mse", test=data[0])
    assert list(result.rows[-1].test) == ["mean_squared_error", "r2"]


BINARY_LOSSES = {
    "name": "bce",
    "module": nn.BCEWithLogitsLoss(),
    "weighted": nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0])),
    "probabilities": nn.BCELoss(),
}


@pytest.mark.parametrize("case", BINARY_LOSSES)
def test_one_output_is_right_where_its_probability_is_above_one_half(case):
    model = net(1)
    if case == "probabilities":
        model = nn.Sequential(model, nn.Sigmoid())
    data = clients()
    result = train(model, data, loss=BINARY_LOSSES[case], test=data[0])
    with torch.no_grad():
        outputs = result.model(data[0][0]).squeeze(1)
    limit = 0.5 if case == "probabilities" else 0.0
    right = ((outputs > limit).long() == data[0][1]).float().mean()
    assert result.rows[-1].accuracy == pytest.approx(float(right))


def test_several_labels_a_sample_are_counted_label_by_label():
    data = [(x, (x[:, :3] > 0).float()) for x, _ in clients()]
    result = train(net(3), data, loss="bce", test=data[0])
    with torch.no_grad():
        right = ((result.model(data[0][0]) > 0).float() == data[0][1]).float().mean()
    assert list(result.rows[-1].test) == ["accuracy"]
    assert result.rows[-1].accuracy == pytest.approx(float(right))


def test_a_metric_of_the_users_sees_what_the_model_gives():
    shapes = []

    def seen(predictions, targets):
        shapes.append((tuple(predictions.shape), tuple(targets.shape)))
        return torch.ones(len(targets))

    data = clients()
    train(net(1), data, loss="bce", test=data[0], metrics=[seen], rounds=1)
    assert set(shapes) == {((SIZE, 1), (SIZE,))}


def test_an_output_that_is_squeezed_serves_one_sample_too():
    class Squeezed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net(1)

        def forward(self, x):
            return self.inner(x).squeeze()

    data = [(x[:1], x[:1, 0]) for x, _ in clients()]
    result = train(Squeezed(), data, loss="mse", test=data[0])
    assert result.rows[-1].test["mean_squared_error"] >= 0


class Saving(nn.Module):
    """Activations of both parts are computed again in the backward pass, or not."""

    def __init__(self, on, tied):
        super().__init__()
        torch.manual_seed(0)
        self.on = on
        self.first = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.3))
        self.second = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.last = nn.Linear(4, 2)
        if tied:
            self.second[0].weight = self.first[0].weight

    def forward(self, x):
        for part in (self.first, self.second):
            if self.on:
                x = checkpoint(part, x, use_reentrant=False)
            else:
                x = part(x)
        return self.last(x)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("method", ["fedsls", "fedpace", "moon"])
def test_activation_checkpointing_changes_no_bits(method, tied):
    model = Saving(True, tied)
    for executor in (Sequential(), Cohort()):
        ends = [
            train(one, clients(), method, executor=executor).x
            for one in (model, Saving(False, tied))
        ]
        assert torch.equal(*ends)
    values = chain(model.parameters(), model.buffers())
    assert all(type(value) is nn.Parameter for value in values)


CSVS = {
    "plain": "site,age,y\nb,61,1\na,50,0\nb,43,1\n",
    "a byte mark": "\ufeffsite,age,y\nb,61,1\na,50,0\nb,43,1\n",
    "semicolons": "site;age;y\nb;61;1\na;50;0\nb;43;1\n",
    "tabs": "site\tage\ty\nb\t61\t1\na\t50\t0\nb\t43\t1\n",
    "quoted commas": 'site,age,y\n"b, old",61,1\na,50,0\n"b, old",43,1\n',
    "Windows' lines and an empty one": "site,age,y\r\nb,61,1\r\na,50,0\r\nb,43,1\r\n\r\n",
    "classes as texts": "site,age,y\nb,61,yes\na,50,no\nb,43,yes\n",
    "spaces": "site,age,y\nb, 61,1\na, 50,0\nb, 43,1\n",
}


@pytest.mark.parametrize("case", CSVS)
def test_a_csv_file_is_read_however_it_was_written(case, tmp_path):
    file = tmp_path / "visits.csv"
    file.write_bytes(CSVS[case].encode())
    made = fedstep.data.clients_from(file, client="site", target="y")
    assert made.sizes.tolist() == [1, 2]
    assert made.fields[0].squeeze(1).tolist() == [61, 50, 43]
    assert made.fields[1].tolist() == [1, 0, 1]


REFUSED_CSVS = {
    "a gap": ("site,age,y\nb,,1\na,50,0\n", r"'age': 1 of 2 values are missing"),
    "NA": ("site,age,y\nb,NA,1\na,50,0\n", r"'age': 1 of 2 values are missing"),
    "text": ("site,sex,y\nb,f,1\na,m,0\n", r"column 'sex'.*encode it, or leave it out"),
    "a comma too many": ("site,age,y\nb,6,1,1\n", r"line 2: 4 values under 3 names"),
    "no rows": ("site,age,y\n", "a header and at least one row"),
}


@pytest.mark.parametrize("case", REFUSED_CSVS)
def test_what_is_wrong_with_a_csv_file_is_one_line(case, tmp_path):
    text, message = REFUSED_CSVS[case]
    file = tmp_path / "visits.csv"
    file.write_text(text)
    with pytest.raises(fedstep.InputError, match=message):
        fedstep.data.clients_from(file, client="site", target="y")


def test_a_csv_file_that_is_no_text_is_refused(tmp_path):
    file = tmp_path / "visits.csv"
    file.write_bytes("site,age,y\nMünchen,61,1\n".encode("latin-1"))
    with pytest.raises(fedstep.InputError, match="no CSV file in UTF-8"):
        fedstep.data.clients_from(file, client="site", target="y")


def test_nothing_is_said_of_layers_that_torch_has_no_rule_for(recwarn):
    torch.manual_seed(0)
    model = nn.Sequential(nn.EmbeddingBag(9, 4), nn.Linear(4, 2))
    data = [(torch.arange(3 * SIZE).view(SIZE, 3) % 9, torch.arange(SIZE) % 2)] * 3
    train(model, data, executor=Cohort())
    assert [str(one.message) for one in recwarn if "batching rule" in str(one.message)] == []
