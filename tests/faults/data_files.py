"""Damaged and hostile data files: each is read, or refused in one line that names the file.

    python tests/faults/data_files.py 0 18000

A process of its own, so that memory and processor time have hard limits: a reader that goes
beyond them ends as a failure and not as a frozen machine.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import pickle
import random
import resource
import struct
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedstep import InputError
from fedstep.data import cifar10, cifar100, emnist, femnist, libsvm, mnist, shakespeare
from fedstep.data import shakespeare_roles as roles
from fedstep.data.cache import cached, place
from fedstep.data.idx import read_idx

EXTRA_MEMORY = 2**31  # beyond what the process holds before the first case
PROCESSOR_SECONDS = 900  # of all cases together; 18,000 take about 100
TEXT = "Friends, Romans, countrymen, lend me your ears; I come to bury Caesar, not to praise him. "


@dataclass(frozen=True)
class Format:
    """A small good file, the others that its reader needs, and what becomes of them."""

    name: str
    content: bytes
    read: Callable[[Path], object]
    others: tuple[tuple[str, bytes], ...] = ()


def idx(*shape: int) -> bytes:
    values = bytes(k % 10 for k in range(int(np.prod(shape))))
    lengths = b"".join(n.to_bytes(4, "big") for n in shape)
    return bytes((0, 0, 8, len(shape))) + lengths + values


def record(*labels: int) -> bytes:
    return bytes(labels) + bytes(k % 251 for k in range(3072))


def batch(protocol: int, **labels: list[int]) -> bytes:
    pixels = np.frombuffer(record() * 2, np.uint8).reshape(2, 3072)
    entries = {b"data": pixels} | {key.encode(): column for key, column in labels.items()}
    return pickle.dumps(entries | {b"filenames": [b"cat.png", b"dog.png"]}, protocol)


def leaf(x: object, y: object, users: int = 2) -> bytes:
    names = [f"u{k}" for k in range(users)]
    data = {name: {"x": x, "y": y} for name in names}
    content = {"users": names, "num_samples": [len(y)] * users, "user_data": data}
    return json.dumps(content).encode()


def kept_tensors() -> bytes:
    """A file of the cache, as it is written."""
    cached("fuzz", tensors)
    return place("fuzz").read_bytes()


def tensors() -> dict[str, torch.Tensor]:
    return {"inputs": torch.arange(40.0).view(8, 5), "targets": torch.arange(8)}


def from_cache(folder: Path) -> object:
    """A damaged file of the cache is made anew: what comes out is always right."""
    os.environ["FEDSTEP_CACHE"] = str(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = cached("fuzz", tensors)
    for name, tensor in tensors().items():
        assert torch.equal(got[name], tensor), name
    return got["inputs"], got["targets"]


IMAGES = idx(2, 28, 28)
LABELS = idx(2)
SPARSE = b"+1 1:0.5 3:-2 7:1e-3\n-1 2:0.25 # a remark\n-1 1:4\n+1 4:1 5:1 6:1\n" * 4
WINDOWS = [TEXT[k : k + 80] for k in range(3)]


def formats() -> list[Format]:
    """Every reader, and every packing."""
    mnist_labels = ("t10k-labels-idx1-ubyte", LABELS)
    mnist_images = ("t10k-images-idx3-ubyte", IMAGES)
    pixels = [[0, 0.5] * 392, [1] * 784]
    hundred = {"coarse_labels": [19, 0], "fine_labels": [99, 0]}
    return [
        Format("a.idx", idx(3, 4), lambda f: (read_idx(f / "a.idx", 2), torch.zeros(3))),
        Format("t10k-images-idx3-ubyte", IMAGES, read_mnist, (mnist_labels,)),
        Format("t10k-labels-idx1-ubyte", LABELS, read_mnist, (mnist_images,)),
        Format("t10k-images-idx3-ubyte.gz", gzip.compress(IMAGES), read_mnist, (mnist_labels,)),
        Format(
            "emnist-letters-test-labels-idx1-ubyte",
            bytes(LABELS[:-2]) + b"\x01\x1a",
            lambda f: emnist(f, "letters", train=False),
            (("emnist-letters-test-images-idx3-ubyte", IMAGES),),
        ),
        Format("test_batch.bin", record(3) + record(9), read_cifar10),
        Format("test_batch", batch(2, labels=[3, 9]), read_cifar10),
        Format("test_batch.xz", lzma.compress(batch(4, labels=[3, 9])), read_cifar10),
        Format("test.bin", record(3, 9), lambda f: cifar100(f, train=False)),
        Format("test", batch(2, **hundred), lambda f: cifar100(f, train=False)),
        Format("a.json", leaf(pixels, [0, 61]), lambda f: samples(femnist(f))),
        Format("b.json", leaf(WINDOWS, ["a", "b", "é"]), lambda f: samples(shakespeare(f))),
        Format(
            "roles.json",
            json.dumps({"BRUTUS": TEXT * 7, "CASCA": TEXT * 6}).encode(),
            lambda f: samples(roles(f)),
        ),
        Format("toy", SPARSE, lambda f: libsvm(f, "toy")),
        Format("toy.bz2", bz2.compress(SPARSE), lambda f: libsvm(f, "toy")),
        Format("fuzz.safetensors", kept_tensors(), from_cache),
    ]


def read_mnist(folder: Path) -> object:
    return mnist(folder, train=False)


def read_cifar10(folder: Path) -> object:
    return cifar10(folder, train=False)


def samples(users: object) -> object:
    return users.inputs, users.targets


def damaged(content: bytes, chance: random.Random) -> bytes:
    """The file with one to three accidents."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(content) + 1)
        end = min(len(content), at + chance.choice((1, 2, 8, 100)))
        accident = chance.choice(ACCIDENTS)
        content = content[:at] + accident(content[at:end], chance) + rest(accident, content, end)
    return content


def rest(accident: Callable[..., bytes], content: bytes, end: int) -> bytes:
    return b"" if accident is cut else content[end:]


def flip(piece: bytes, chance: random.Random) -> bytes:
    return bytes([piece[0] ^ 1 << chance.randrange(8)]) + piece[1:] if piece else piece


def cut(piece: bytes, chance: random.Random) -> bytes:
    return b""


def drop(piece: bytes, chance: random.Random) -> bytes:
    return b""


def double(piece: bytes, chance: random.Random) -> bytes:
    return piece + piece


def insert(piece: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((1, 4, 30))) + piece


def overwrite(piece: bytes, chance: random.Random) -> bytes:
    return chance.choice((b"\xff", b"\x00", b"9", b"-", b"[", b"{", b'"')) * len(piece)


def write_number(piece: bytes, chance: random.Random) -> bytes:
    return chance.choice((b"1e20", b"3000000000", b"1e300", b"nan", b"-1", b"1e-320")) + piece


ACCIDENTS = (flip, cut, drop, double, insert, overwrite, write_number)


def bomb(pack: Callable[[bytes], bytes]) -> bytes:
    """A gigabyte of nothing, packed."""
    return pack(bytes(2**26)) * 16


def opcodes(*parts: bytes) -> bytes:
    return b"\x80\x02" + b"".join(parts) + b"."


def doubled_tuples() -> bytes:
    """Twice the same, sixty times over: its hash is the sum of 2^60 hashes."""
    steps = b"".join(b"q%ch%c\x86" % (k, k) for k in range(60))
    return opcodes(b"}(", b"K\x01", steps, b"K\x01u")


def hostile() -> list[tuple[Format, str]]:
    """Files that were made to harm, and a word of the answer."""
    deep = 200_000
    long_array = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85U\x01btR"
    kind = b"cnumpy\ndtype\n(U\x02u1K\x00K\x01tR"
    state = b"(K\x01K\x01\x85" + kind + b"\x89h\x00t"
    copies = b"}(U\x04dataT" + struct.pack("<I", 2**20) + bytes(2**20) + b"q\x00u0]"
    copies += (long_array + state + b"ba") * 3000
    pickles = {
        "memo": (opcodes(b"}r\x00\x00\x00\x10U\x04dataK\x01s"), "no `data`"),
        "long": (opcodes(b"]" * 3_000_000), "more than"),
        "nested lists": (opcodes(b"]" * deep, b"a" * (deep - 1)), "not a dict"),
        "nested tuples": (opcodes(b"}", b")" + b"\x85" * deep, b"K\x01s"), "a key is a tuple"),
        "doubled tuples": (doubled_tuples(), "a key is a tuple"),
        "huge string": (opcodes(b"}U\x04data\x8e" + b"\xff" * 7 + b"\x0f"), "not a plain pickle"),
        "huge integer": (batch(2, labels=[2**70, 1]), "64 bits"),
        "copies": (opcodes(copies), "not a plain pickle"),
        "code": (b"cos\nsystem\n(S'true'\ntR.", "asks for os.system"),
    }
    cases = [(Format("test_batch", *made_of(c)), word) for c, word in pickles.values()]
    lines = {
        b"1 99999999999999999999:1\n": "index 99999999999999999999 is beyond",
        b"1 1e20:1\n": "line 1",
        b"1 1:1\n2 3000000000:1\n": "line 2: index 3000000000",
        b"1 2147483647:1\n" * 9: "a dense matrix of",
        b"1 1:1e300\n": "value 1e300 is beyond",
        b"1 1:-1e39\n": "value -1e39 is beyond",
        b"1 1:inf\n": "value inf is beyond",
        b"1 " + b"9" * 5000 + b":1\n": "line 1",
    }
    for content, word in lines.items():
        cases.append((Format("toy", content, lambda f: libsvm(f, "toy")), word))
    packed = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}
    for ending, pack in packed.items():
        name = f"toy{ending}"
        cases.append((Format(name, bomb(pack), lambda f: libsvm(f, "toy")), "unpacks to more"))
    nested = b'{"users": ' + b"[" * 100_000
    cases.append((Format("a.json", nested, femnist), "not JSON"))
    cases.append((Format("a.json", leaf([[[]] * 784], [0]), femnist), "pixel"))
    empty_but_wide = bytes((0, 0, 8, 3)) + bytes(4) + b"\xff" * 8
    cases.append((Format("a.idx", empty_but_wide, lambda f: read_idx(f / "a.idx", 3)), "holds 0"))
    return cases


def made_of(content: bytes) -> tuple[bytes, Callable[[Path], object]]:
    return content, read_cifar10


def verdict(case: Format, content: bytes) -> str:
    """ "right", "refused: ..." in one line with the file's name, or what is wrong."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, other in case.others:
            (folder / name).write_bytes(other)
        (folder / case.name).write_bytes(content)
        try:
            inputs, targets = case.read(folder)
        except InputError as error:
            line = str(error)
            if "\n" in line or str(folder) not in line:
                return f"no line that names the file: {line!r:.300}"
            return f"refused: {line}"
        except BaseException as error:
            return f"{type(error).__name__}: {error!s:.300}"
    finite = bool(torch.isfinite(inputs.double()).all())
    if len(inputs) != len(targets) or len(inputs) == 0 or not finite:
        return f"samples that cannot be: {tuple(inputs.shape)}, {tuple(targets.shape)}"
    return "right"


def limit_this_process() -> None:
    """Memory beyond what is held now, and processor time, end in an error."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    held = pages * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + EXTRA_MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS,) * 2)


def main(first: int, end: int) -> None:
    """Cases of these numbers, in turn over the formats; the hostile ones come with number 0."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as home:
        os.environ["FEDSTEP_CACHE"] = home
        every = formats()
        bad = []
        counts = {"right": 0, "refused": 0}
        crafted = hostile()
        limit_this_process()
        for case in every:
            if verdict(case, case.content) != "right":
                bad.append(f"{case.name} as it is: {verdict(case, case.content)}")
        for number in range(first, end):
            case = every[number % len(every)]
            outcome = verdict(case, damaged(case.content, random.Random(number)))
            kind = outcome.partition(":")[0]
            if kind in counts:
                counts[kind] += 1
            else:
                bad.append(f"case {number}, {case.name}: {outcome}")
        if first == 0:
            for case, word in crafted:
                outcome = verdict(case, case.content)
                if not outcome.startswith("refused") or word not in outcome:
                    bad.append(f"{case.content[:60]!r} ({word}): {outcome}")
            counts["hostile"] = len(crafted)
    print(json.dumps({**counts, "bad": bad}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
