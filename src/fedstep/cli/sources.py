"""The files of every task: what they are called, and where they belong.

Beside data/tasks.py, which cannot be asked without importing torch:
tests/front/test_data_commands.py holds them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ENDINGS = ("", ".gz", ".xz", ".bz2")
LEAF_FILES = (("train/*.json",), ("test/*.json",))
MNIST_FILES = (
    ("train-images-idx3-ubyte",),
    ("train-labels-idx1-ubyte",),
    ("t10k-images-idx3-ubyte",),
    ("t10k-labels-idx1-ubyte",),
)


@dataclass(frozen=True)
class Source:
    """A task's files: in one of `folders`, for each of `needs` one of the names; no folders: it
    needs no files.
    """

    what: str
    folders: tuple[str, ...] = ()
    needs: tuple[tuple[str, ...], ...] = ()
    hub: str = ""

    def lines(self) -> list[str]:
        """What is worth telling of it."""
        lines = [self.what]
        if not self.needs:
            lines.append("no files needed")
        for names in self.needs:
            lines.append(f"{self.folders[0]}/{' or '.join(names)}")
        for folder in self.folders[1:]:
            lines.append(f"or the same in {folder}/")
        if self.hub:
            lines.append(f"hub: {self.hub}")
        return lines

    def missing(self, data: Path | None) -> list[str]:
        """The files that are not there, each by its first name."""
        folder = self._folder(data)
        absent = []
        for names in self.needs:
            if folder is None or not any(_is_there(folder, name) for name in names):
                absent.append(names[0])
        return absent

    def _folder(self, data: Path | None) -> Path | None:
        if data is None:
            return None
        for folder in self.folders:
            if (data / folder).is_dir():
                return data / folder
        return None


def _is_there(folder: Path, name: str) -> bool:
    return any(next(folder.glob(name + ending), None) is not None for ending in ENDINGS)


SOURCES = {
    "femnist": Source(
        "handwritten characters by writer (LEAF)",
        folders=("femnist",),
        needs=LEAF_FILES,
        hub="flwrlabs/femnist",
    ),
    "femnist-ink": Source(
        "the same with ink 1 on 0, as MNIST has it",
        folders=("femnist",),
        needs=LEAF_FILES,
    ),
    "shakespeare": Source(
        "the next character, by speaking role (LEAF)",
        folders=("shakespeare/leaf",),
        needs=LEAF_FILES,
        hub="flwrlabs/shakespeare",
    ),
    "cifar10": Source(
        "colour images, 10 classes",
        folders=("cifar-10-batches-bin", "cifar-10-batches-py"),
        needs=(("data_batch_1.bin", "data_batch_1"), ("test_batch.bin", "test_batch")),
        hub="uoft-cs/cifar10",
    ),
    "cifar100": Source(
        "colour images, 100 classes",
        folders=("cifar-100-binary", "cifar-100-python"),
        needs=(("train.bin", "train"), ("test.bin", "test")),
        hub="uoft-cs/cifar100",
    ),
    "mnist": Source(
        "handwritten digits, 28 x 28",
        folders=("mnist",),
        needs=MNIST_FILES,
        hub="ylecun/mnist",
    ),
    "digits": Source("handwritten digits, 8 x 8 (scikit-learn's)"),
    "synthetic": Source("generated clusters, 10 classes"),
    "plane": Source("the two clients of Figure 1, in the plane"),
}
