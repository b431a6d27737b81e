"""The LEAF benchmark's JSON (Caldas et al., 2018): FEMNIST by writer, Shakespeare by role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.data.alphabet import ALPHABET, UNKNOWN
from fedstep.data.files import find, listing, read_json
from fedstep.data.parts import Parts
from fedstep.data.users import Users

PIXELS = 784
FEMNIST_CLASSES = 62
WINDOW = 80  # characters of an input

# a table by code point: a million characters are one indexing
_CODES = np.full(128, UNKNOWN, np.uint8)
_CODES[[ord(symbol) for symbol in ALPHABET]] = np.arange(UNKNOWN, dtype=np.uint8)


def femnist(
    directory: str | Path,
    invert: bool = False,
) -> Users:
    """FEMNIST shards of a directory: float32 pixels `[n, 784]` in [0, 1] and int64 labels.

    Labels are 0..61 (0-9, A-Z, a-z). LEAF's polarity is kept: 1.0 is the white background.
    `invert=True` gives 1 - x: ink is 1.0, as in MNIST.
    """
    users = _all_users(directory, _pixels)
    if invert:
        return replace(users, inputs=1 - users.inputs)
    return users


def shakespeare(directory: str | Path) -> Users:
    """Shakespeare shards of a directory: uint8 symbols `[n, 80]` and the int64 next symbol.

    Symbols are 0..80 by `encode`. LEAF's own test files count the 79 windows that its split drops;
    that one difference of `num_samples` is accepted.
    """
    return _all_users(directory, _text, uncounted=WINDOW - 1)


def shakespeare_roles(
    directory: str | Path,
    train: bool = True,
) -> Users:
    """Shakespeare cut from `roles.json`, an object {role: text}, by LEAF's temporal rule.

    With text t and n = len(t) - 80, sample i is (t[i : i+80], t[i+80]); train has i < k = int(0.8 n),
    test has k + 79 <= i < n, so that no test input overlaps a train input. Roles without both are
    left out of both.
    """
    path = find(directory, "roles.json")
    texts = read_json(path)
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise InputError(f"{path} is not an object of role: text")
    names = []
    inputs = []
    targets = []
    for role, text in texts.items():
        # the same rule for both splits, so that a role is in both or in none
        windows = _windows(len(text), train)
        if windows is None:
            continue
        symbols = encode(text)
        names.append(role)
        inputs.append(
            symbols.unfold(
                0,
                WINDOW,
                1,
            )[windows.start : windows.stop]
        )
        targets.append(symbols[windows.start + WINDOW : windows.stop + WINDOW].long())
    if not names:
        raise InputError(
            f"{path} has no role with a train and a test sample: the texts are too short"
        )
    return Users(
        names=tuple(names),
        inputs=torch.cat(inputs),
        targets=torch.cat(targets),
        parts=Parts.consecutive([len(own) for own in targets]),
    )


def _windows(
    length: int,
    train: bool,
) -> range | None:
    """The windows of a role in one split; None where the role has not both splits."""
    n = length - WINDOW
    k = int(0.8 * n)
    first_test = k + WINDOW - 1
    if k <= 0 or n <= first_test:
        return None
    if train:
        return range(0, k)
    return range(first_test, n)


def encode(text: str) -> Tensor:
    """Each character as its place in `ALPHABET`, uint8; any other character is `UNKNOWN`.

    >>> encode("\\n }é").tolist()
    [0, 1, 79, 80]
    """
    points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return torch.from_numpy(_CODES[np.minimum(points, 127)])  # 127 is unknown itself


def _all_users(
    directory: str | Path,
    convert: Callable[[list[Any], list[Any]], tuple[Tensor, Tensor]],
    uncounted: int = 0,
) -> Users:
    """The users of all files of a directory, in the order of the files."""
    inputs: dict[str, Tensor] = {}
    targets: dict[str, Tensor] = {}
    for path in listing(directory, ".json"):
        for user in _users_of_file(path, uncounted):
            # two files of one writer would be two halves of a client, or one half twice
            if user.name in inputs:
                raise InputError(
                    f"{path}: user {user.name!r} was already in an earlier file: "
                    "keep one of the two"
                )
            try:
                converted = convert(user.inputs, user.targets)
            except ValueError as error:
                raise InputError(f"{path}, user {user.name!r}: {error}") from None
            inputs[user.name], targets[user.name] = converted
    return Users(
        names=tuple(inputs),
        inputs=torch.cat(list(inputs.values())),
        targets=torch.cat(list(targets.values())),
        parts=Parts.consecutive([len(own) for own in targets.values()]),
    )


@dataclass(frozen=True)
class _JsonUser:
    """A user as the file has it; x and y are lists of one length, of anything."""

    name: str
    inputs: list[Any]
    targets: list[Any]


def _users_of_file(
    path: Path,
    uncounted: int,
) -> Iterator[_JsonUser]:
    """Users of a file in its order, with everything checked that the file says about itself."""
    shard = _read_shard(path)
    for name, count in zip(shard.users, shard.counts, strict=True):
        # popped: the lists of a user are freed before the next is converted
        user = _json_user(
            path,
            name,
            shard.data.pop(name),
        )
        length = len(user.targets)
        # a file that was cut and mended by hand shows here
        counted = count in (length, length + uncounted)
        if len(user.inputs) != length or not counted:
            raise InputError(
                f"{path}, user {name!r} has {len(user.inputs)} x, {length} y and "
                f"num_samples {_shown(count)}: they must agree"
            )
        yield user


def _read_shard(path: Path) -> _Shard:
    content = read_json(path)
    if not isinstance(content, dict):
        content = {}
    shard = _Shard(
        users=content.get("users"),
        counts=content.get("num_samples"),
        data=content.get("user_data"),
    )
    if not shard.has_its_parts():
        raise InputError(
            f"{path} is not LEAF JSON: `users`, `num_samples` and `user_data` are needed"
        )
    if not shard.agrees():
        raise InputError(
            f"{path}: `users`, `num_samples` and `user_data` do not name the same users once each"
        )
    return shard


@dataclass(frozen=True)
class _Shard:
    """The three parts of a file, as they were found."""

    users: Any
    counts: Any
    data: Any

    def has_its_parts(self) -> bool:
        lists = isinstance(self.users, list) and isinstance(self.counts, list)
        return lists and isinstance(self.data, dict) and len(self.users) > 0

    def agrees(self) -> bool:
        if not all(isinstance(user, str) for user in self.users):
            return False
        same_length = len(self.users) == len(self.counts)
        return same_length and sorted(self.users) == sorted(self.data)


def _json_user(
    path: Path,
    name: str,
    entry: Any,
) -> _JsonUser:
    if not isinstance(entry, dict):
        entry = {}
    inputs = entry.get("x")
    targets = entry.get("y")
    if not isinstance(inputs, list) or not isinstance(targets, list):
        raise InputError(f"{path}, user {name!r}: lists `x` and `y` are needed")
    # a client without samples has no loss, and every mean over clients would be NaN
    if not inputs:
        raise InputError(f"{path}, user {name!r} has no samples: leave the user out of the file")
    return _JsonUser(name, inputs, targets)


def _pixels(
    inputs: list[Any],
    targets: list[Any],
) -> tuple[Tensor, Tensor]:
    for label in targets:
        # `type`, not isinstance: true is no label
        if type(label) is not int or not 0 <= label < FEMNIST_CLASSES:
            last = FEMNIST_CLASSES - 1
            raise ValueError(f"label {_shown(label)} is not a whole number in 0..{last}")
    for image in inputs:
        if not isinstance(image, list) or len(image) != PIXELS:
            raise ValueError(f"an image has {_length(image)} pixels, not {PIXELS}")
    images = np.array(inputs)  # no dtype: asked for floats, numpy would read the string "1" as 1.0
    if images.dtype.kind not in "fiu" or images.shape != (len(inputs), PIXELS):
        raise ValueError("a pixel is not a number")
    # written so that NaN fails too
    if not (images.min() >= 0 and images.max() <= 1):
        raise ValueError("a pixel is outside [0, 1]: divide bytes by 255")
    return torch.from_numpy(images.astype(np.float32)), torch.tensor(targets)


def _length(image: Any) -> int:
    if isinstance(image, list):
        return len(image)
    return 0


def _text(
    inputs: list[Any],
    targets: list[Any],
) -> tuple[Tensor, Tensor]:
    check_texts(inputs, WINDOW)
    check_texts(targets, 1)
    windows = encode("".join(inputs)).view(-1, WINDOW)
    return windows, encode("".join(targets)).long()


def check_texts(
    values: list[Any],
    length: int,
) -> None:
    """Refuse what is not text of this length."""
    for value in values:
        if not isinstance(value, str) or len(value) != length:
            raise ValueError(f"{_shown(value)} is not a string of length {length}")


def _shown(value: Any) -> str:
    # what is nested is not shown: it may be too deep for that
    if isinstance(value, str | int | float):
        return repr(value)[:100]
    return f"a {type(value).__name__}"
