"""The LEAF benchmark's JSON (Caldas et al., 2018): FEMNIST by writer, Shakespeare by role."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.data.federation import Federation
from fedstep.data.files import find, listing, read_json
from fedstep.data.parts import Parts

PIXELS, FEMNIST_CLASSES = 784, 62
WINDOW = 80
ALPHABET = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"  # LEAF's 80
UNKNOWN = len(
    ALPHABET
)  # one symbol of its own: LEAF's code lets -1, the authors' lets a real character stand for it
VOCABULARY = UNKNOWN + 1

_CODES = np.full(128, UNKNOWN, np.uint8)
_CODES[[ord(c) for c in ALPHABET]] = np.arange(UNKNOWN, dtype=np.uint8)


@dataclass(frozen=True)
class Users:
    """Samples of named users: those of user i are rows `parts[i]` of the pooled inputs and targets."""

    names: tuple[str, ...]
    inputs: Tensor
    targets: Tensor
    parts: Parts

    @property
    def federation(self) -> Federation:
        """The users as clients, in order."""
        return Federation((self.inputs, self.targets), self.parts)

    def only(self, names: Sequence[str]) -> Users:
        """These users in this order: `test.only(train.names)` brings two splits in line."""
        place = {name: i for i, name in enumerate(self.names)}
        missing = [name for name in names if name not in place]
        if missing or not names:
            raise InputError(
                f"there is no user {missing[0]!r} among the {len(place)} here"
                if missing
                else "name a user"
            )
        parts = [self.parts[place[name]] for name in names]
        rows = torch.cat(parts)
        return Users(
            tuple(names),
            self.inputs[rows],
            self.targets[rows],
            Parts.consecutive([len(part) for part in parts]),
        )


def femnist(directory: str | Path, invert: bool = False) -> Users:
    """FEMNIST shards of a directory: float32 pixels `[n, 784]` in [0, 1] and int64 labels 0..61 (0-9, A-Z, a-z).

    LEAF's polarity is kept: 1.0 is the white background. `invert=True` gives 1 - x: ink is 1.0, as in MNIST.
    """
    users = _merge(directory, _pixels)
    return Users(users.names, 1 - users.inputs, users.targets, users.parts) if invert else users


def shakespeare(directory: str | Path) -> Users:
    """Shakespeare shards of a directory: uint8 symbols `[n, 80]` and the int64 next symbol, 0..80 by `encode`.

    LEAF's own test files count the 79 windows that its split drops; that one difference of `num_samples` is accepted.
    """
    return _merge(directory, _text, uncounted=WINDOW - 1)


def shakespeare_roles(directory: str | Path, train: bool = True) -> Users:
    """Shakespeare cut from `roles.json`, an object {role: text}, by LEAF's temporal rule.

    With text t and n = len(t) - 80, sample i is (t[i : i+80], t[i+80]); train has i < k = int(0.8 n), test has
    k + 79 <= i < n, so that no test input overlaps a train input. Roles without both are left out of both.
    """
    path = find(directory, "roles.json")
    texts = read_json(path)
    if not isinstance(texts, dict) or not all(isinstance(t, str) for t in texts.values()):
        raise InputError(f"{path} is not an object of role: text")
    ends = {
        role: (int(0.8 * (len(t) - WINDOW)), len(t) - WINDOW)
        for role, t in texts.items()
        if len(t) > WINDOW
    }
    ends = {role: (k, n) for role, (k, n) in ends.items() if k > 0 and n > k + WINDOW - 1}
    if not ends:
        raise InputError(
            f"{path} has no role with a train and a test sample: the texts are too short"
        )
    inputs, targets = [], []
    for role, (k, n) in ends.items():
        symbols = encode(texts[role])
        first, last = (0, k) if train else (k + WINDOW - 1, n)
        inputs.append(symbols.unfold(0, WINDOW, 1)[first:last])
        targets.append(symbols[first + WINDOW : last + WINDOW].long())
    return Users(
        tuple(ends),
        torch.cat(inputs),
        torch.cat(targets),
        Parts.consecutive([len(y) for y in targets]),
    )


def encode(text: str) -> Tensor:
    """Each character as its place in `ALPHABET`, uint8; any other character is `UNKNOWN`.

    >>> encode("\\n }é").tolist()
    [0, 1, 79, 80]
    """
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return torch.from_numpy(_CODES[np.minimum(points, 127)])  # 127 is unknown itself


def _merge(
    directory: str | Path,
    convert: Callable[[list[Any], list[Any]], tuple[Tensor, Tensor]],
    uncounted: int = 0,
) -> Users:
    each: dict[str, tuple[Tensor, Tensor]] = {}
    for path in listing(directory, ".json"):
        for user, inputs, targets in _shard(path, uncounted):
            if user in each:
                raise InputError(
                    f"{path}: user {user!r} was already in an earlier file: keep one of the two"
                )
            try:
                each[user] = convert(inputs, targets)
            except ValueError as error:
                raise InputError(f"{path}, user {user!r}: {error}") from None
    pooled = [torch.cat(column) for column in zip(*each.values(), strict=True)]
    return Users(
        tuple(each), pooled[0], pooled[1], Parts.consecutive([len(y) for _, y in each.values()])
    )


def _shard(path: Path, uncounted: int) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Users of a file in its order, with everything checked that the file says about itself."""
    shard = read_json(path)
    parts = (
        [shard.get(k) for k in ("users", "num_samples", "user_data")]
        if isinstance(shard, dict)
        else []
    )
    match parts:
        case [list() as users, list() as counts, dict() as data] if users:
            pass
        case _:
            raise InputError(
                f"{path} is not LEAF JSON: `users`, `num_samples` and `user_data` are needed"
            )
    if (
        len(users) != len(counts)
        or not all(isinstance(u, str) for u in users)
        or sorted(users) != sorted(data)
    ):
        raise InputError(
            f"{path}: `users`, `num_samples` and `user_data` do not name the same users once each"
        )
    for user, count in zip(users, counts, strict=True):
        own = data.pop(user)  # the lists of a user are freed before the next is converted
        inputs, targets = (own.get("x"), own.get("y")) if isinstance(own, dict) else (None, None)
        if not isinstance(inputs, list) or not isinstance(targets, list):
            raise InputError(f"{path}, user {user!r}: lists `x` and `y` are needed")
        if not inputs:
            raise InputError(
                f"{path}, user {user!r} has no samples: leave the user out of the file"
            )
        if len(inputs) != len(targets) or count not in (len(targets), len(targets) + uncounted):
            found = f"{len(inputs)} x, {len(targets)} y and num_samples {count}"
            raise InputError(f"{path}, user {user!r} has {found}: they must agree")
        yield user, inputs, targets


def _pixels(inputs: list[Any], targets: list[Any]) -> tuple[Tensor, Tensor]:
    if {type(y) for y in targets} != {int} or not 0 <= min(targets) <= max(
        targets
    ) < FEMNIST_CLASSES:
        wrong = next(y for y in targets if type(y) is not int or not 0 <= y < FEMNIST_CLASSES)
        raise ValueError(f"label {wrong!r} is not a whole number in 0..{FEMNIST_CLASSES - 1}")
    lengths = {len(x) if isinstance(x, list) else 0 for x in inputs}
    if lengths != {PIXELS}:
        raise ValueError(f"an image has {min(lengths - {PIXELS})} pixels, not {PIXELS}")
    images = np.array(inputs)  # no dtype: asked for floats, numpy would read the string "1" as 1.0
    if images.dtype.kind not in "fiu" or images.shape != (len(inputs), PIXELS):
        raise ValueError("a pixel is not a number")
    if not (images.min() >= 0 and images.max() <= 1):  # also for NaN
        raise ValueError("a pixel is outside [0, 1]: divide bytes by 255")
    return torch.from_numpy(images.astype(np.float32)), torch.tensor(targets)


def _text(inputs: list[Any], targets: list[Any]) -> tuple[Tensor, Tensor]:
    for values, length in ((inputs, WINDOW), (targets, 1)):
        wrong = [v for v in values if not isinstance(v, str) or len(v) != length]
        if wrong:
            raise ValueError(
                f"{wrong[0]!r} is not a string of {length} character{'s' if length > 1 else ''}"
            )
    return encode("".join(inputs)).view(-1, WINDOW), encode("".join(targets)).long()
