"""The paper's models have the sizes derived by hand and work as functions of their parameters."""

import pytest
import torch
from torch import nn

from fedstep.core.errors import InputError
from fedstep.core.types import Batch
from fedstep.models.module import ModuleModel
from fedstep.models.paper import (
    char_lstm,
    cifar_cnn,
    femnist_cnn,
    leaf_lstm,
    lenet,
    logistic,
    mlp,
    resnet18,
)

# Biases are the +n of each term; a GroupNorm of n channels has 2 n parameters; the convolutions of ResNet have no bias.
SIZES = [
    (logistic(), 784 * 62 + 62, 48_670),
    (mlp(784, 200, 62), (784 * 200 + 200) + (200 * 62 + 62), 169_462),
    # conv 3 -> 32 and 32 -> 64 of 5x5; 64 * 5 * 5 = 1600 -> 384 -> 192 -> 10
    (
        cifar_cnn(10),
        (3 * 32 * 25 + 32)
        + (32 * 64 * 25 + 64)
        + (1600 * 384 + 384)
        + (384 * 192 + 192)
        + (192 * 10 + 10),
        744_330,
    ),
    # conv 3 -> 6 and 6 -> 16 of 5x5; 16 * 5 * 5 = 400 -> 120 -> 84 -> 10
    (
        lenet(10),
        (3 * 6 * 25 + 6)
        + (6 * 16 * 25 + 16)
        + (400 * 120 + 120)
        + (120 * 84 + 84)
        + (84 * 10 + 10),
        62_006,
    ),
    # conv 1 -> 6 and 6 -> 16 of 5x5; 16 * 4 * 4 = 256 -> 120 -> 84 -> 62
    (
        femnist_cnn(),
        (6 * 25 + 6) + (6 * 16 * 25 + 16) + (256 * 120 + 120) + (120 * 84 + 84) + (84 * 62 + 62),
        48_846,
    ),
    # stem; 64: 4 convs; then per width w: w/2 -> w, 3 of w -> w, projection w/2 -> w, 5 norms; head
    (
        resnet18(10),
        (3 * 64 * 9 + 128)
        + (4 * 64 * 64 * 9 + 4 * 128)
        + sum(w // 2 * w * 9 + 3 * w * w * 9 + w // 2 * w + 5 * 2 * w for w in (128, 256, 512))
        + (512 * 10 + 10),
        11_173_962,
    ),
    # an LSTM layer i -> h has 4 gates of h (i + h) weights and two biases of h each
    (char_lstm(), 81 * 32 + 4 * (64 * (32 + 64) + 2 * 64) + (64 * 81 + 81), 32_945),
    (
        leaf_lstm(),
        81 * 8
        + 4 * (256 * (8 + 256) + 2 * 256)
        + 4 * (256 * (256 + 256) + 2 * 256)
        + (256 * 81 + 81),
        820_185,
    ),
]
NAMES = [
    "logistic",
    "mlp",
    "cifar_cnn",
    "lenet",
    "femnist_cnn",
    "resnet18",
    "char_lstm",
    "leaf_lstm",
]


def sample(name: str, n: int = 2) -> torch.Tensor:
    g = torch.Generator().manual_seed(0)
    if "lstm" in name:
        return torch.randint(81, (n, 80), generator=g).to(torch.uint8)
    shape = (784,) if name in ("logistic", "mlp", "femnist_cnn") else (3, 32, 32)
    return torch.randn(n, *shape, generator=g)


@pytest.mark.parametrize(("model", "derived", "known"), SIZES, ids=NAMES)
def test_the_number_of_parameters_is_the_derived_one(
    model: nn.Module, derived: int, known: int
) -> None:
    assert sum(p.numel() for p in model.parameters()) == derived == known


@pytest.mark.parametrize(
    ("name", "model"), [(n, s[0]) for n, s in zip(NAMES, SIZES, strict=True)], ids=NAMES
)
def test_a_model_is_a_function_of_the_parameters_it_is_called_with(
    name: str, model: nn.Module
) -> None:
    x = sample(name)
    halved = {k: p.detach() / 2 for k, p in model.named_parameters()}
    called = torch.func.functional_call(model, halved, (x,))
    before = model(x)
    with torch.no_grad():
        for p in model.parameters():
            p.div_(2)
    after = model(x)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    assert torch.equal(called, after)
    assert not torch.allclose(called, before)
    assert called.shape == (
        2,
        {"cifar_cnn": 10, "lenet": 10, "resnet18": 10}.get(name, 81 if "lstm" in name else 62),
    )


@pytest.mark.parametrize("name", ["logistic", "mlp", "cifar_cnn", "femnist_cnn", "char_lstm"])
def test_a_block_of_clients_gives_what_each_gives_alone(name: str) -> None:
    model = ModuleModel(SIZES[NAMES.index(name)][0])
    x = torch.stack([model.init(), 0.9 * model.init()])
    inputs, targets = (
        torch.stack([sample(name), sample(name).flip(0)]),
        torch.tensor([[1, 2], [3, 4]]),
    )
    seeds = torch.zeros(2, dtype=torch.int64)
    block = model(x, Batch((inputs, targets), torch.ones(2), seeds)).loss
    for i in range(2):
        alone = model(x[i], Batch((inputs[i], targets[i]), torch.tensor(1.0), seeds[i])).loss
        torch.testing.assert_close(block[i], alone)


def test_every_integer_type_of_symbol_gives_the_same_logits() -> None:
    model, symbols = char_lstm(), sample("char_lstm")
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        assert torch.equal(model(symbols.to(dtype)), model(symbols))


def test_the_lstm_reads_every_symbol_and_answers_once() -> None:
    model, symbols = char_lstm(), sample("char_lstm", 1)
    changed = symbols.clone()
    changed[0, 60] = (int(symbols[0, 60]) + 1) % 81
    assert model(symbols).shape == (1, 81)
    assert not torch.equal(model(symbols), model(changed))


def test_resnet_uses_the_whole_last_map_and_two_groups() -> None:
    model = resnet18(10)
    norms = [m for m in model.modules() if isinstance(m, nn.GroupNorm)]
    assert len(norms) == 20  # stem 1, blocks 8 * 2, shortcuts 3
    assert {m.num_groups for m in norms} == {2}
    assert not any(isinstance(m, nn.MaxPool2d) for m in model.modules())
    features = nn.Sequential(*list(model)[:-3])(sample("resnet18"))  # type: ignore[call-overload]
    assert features.shape == (2, 512, 4, 4)
    torch.testing.assert_close(model[-1](features.mean((2, 3))), model(sample("resnet18")))  # type: ignore[index]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: logistic(classes=0), r"logistic\(classes=0\)"),
        (lambda: mlp(4, 0, 2), r"mlp\(hidden=0\)"),
        (lambda: cifar_cnn(-1), r"cifar_cnn\(classes=-1\)"),
        (lambda: resnet18(10, groups=3), r"resnet18\(groups=3\): must divide width=64"),
        (lambda: char_lstm(layers=0), r"char_lstm\(layers=0\)"),
    ],
)
def test_an_impossible_size_is_named(make, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=words):
        make()
