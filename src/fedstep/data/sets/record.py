"""What there is to say about a data set, in one record.

A record is read where torch must not be imported (`fedstep data list`): whatever needs it is
imported inside the functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fedstep.core.errors import InputError
from fedstep.data.cache import DamagedCache, cached, checksum, content_key, home, keep, kept, place
from fedstep.data.directory import LIST, Absent, directory, files_in, is_there

if TYPE_CHECKING:
    from torch import Tensor

    from fedstep.data.federation import Transform
    from fedstep.data.users import Users

Pair: TypeAlias = "tuple[Tensor, Tensor]"
SPLITS = ("train", "test")
HELDOUT = "heldout"


@dataclass(frozen=True)
class Samples:
    """Inputs and targets, and the number of every sample's natural client where there are any."""

    inputs: Tensor
    targets: Tensor
    ids: Tensor | None = None

    @staticmethod
    def of_users(users: Users) -> Samples:
        """The samples of named users, who are the natural clients."""
        return Samples(users.inputs, users.targets, users.ids)

    @property
    def pair(self) -> Pair:
        return self.inputs, self.targets

    def tensors(self) -> dict[str, Tensor]:
        """As the cache keeps them."""
        tensors = {"inputs": self.inputs, "targets": self.targets}
        if self.ids is not None:
            tensors["ids"] = self.ids
        return tensors


@dataclass(frozen=True)
class Raw:
    """A data set before it is dealt to clients: natural ids where it has them."""

    train: Pair
    test: Pair | None
    ids: Tensor | None = None
    heldout: Pair | None = None
    transform: Transform | None = None


@dataclass(frozen=True, kw_only=True)
class DataSet(ABC):
    """A data set: its name in studies, and how its samples are had.

    A file of `data/sets` that holds a record is all that a new one takes.
    """

    name: str
    what: str  # a line for `fedstep data list`
    labels: Sequence[str] = ()  # a word or a character each, where there are short ones
    transform: Callable[[], Transform] | None = None  # what is done to samples when batched

    folders: tuple[str, ...] = ()  # of the data directory; none: it needs no files
    needs: tuple[tuple[str, ...], ...] = ()  # files of the folder: for each one of these names
    hub: str = ""  # the repository of the Hugging Face hub that holds it

    @abstractmethod
    def read(self, data: Path | None) -> Raw:
        """The samples, of the data directory."""

    def read_files(self, data: Path | None) -> Raw:
        """The same without what was fetched from the hub."""
        return self.read(data)

    def label_name(self, label: int) -> str:
        """A word or a character, where there is a short one; else the number."""
        if label < len(self.labels):
            return self.labels[label]
        return str(label)

    def missing(self, data: Path | None) -> list[str]:
        """The files that are not in the data directory, each by its first name."""
        folder = self._first_folder(data)
        absent = []
        for names in self.needs:
            if folder is None or not any(is_there(folder, name) for name in names):
                absent.append(names[0])
        return absent

    def has_hub_copy(self) -> bool:
        """Whether the cache holds what was fetched from the hub."""
        return False

    def _first_folder(self, data: Path | None) -> Path | None:
        if data is None:
            return None
        for folder in self.folders:
            if (data / folder).is_dir():
                return data / folder
        return None

    def _transform(self) -> Transform | None:
        if self.transform is None:
            return None
        return self.transform()


@dataclass(frozen=True, kw_only=True)
class MadeHere(DataSet):
    """A data set that needs no files."""

    make: Callable[[], Raw]

    def read(self, data: Path | None) -> Raw:
        return self.make()


@dataclass(frozen=True, kw_only=True)
class FromFiles(DataSet):
    """A data set in files that the user has, or on the hub.

    `read_split` reads "train" or "test" of a folder, and "heldout" where there is a folder of that
    name. `fetch` gets the training or the test samples from the hub.
    """

    read_split: Callable[[Path, str], Samples]
    fetch: Callable[[bool], Samples] | None = None

    def read(self, data: Path | None) -> Raw:
        """From the files, else from what was fetched."""
        try:
            return self.read_files(data)
        except Absent:
            copy = self._fetched()
            if copy is None:
                raise
            return copy

    def read_files(self, data: Path | None) -> Raw:
        """From the files; tensors of an earlier time are taken where the files are the same."""
        folder = self._folder(data)
        # one key for all splits: the files are read through once
        key = content_key(folder, files_in(folder))
        splits = {}
        for split in SPLITS:
            splits[split] = self._cached_split(
                folder,
                split,
                key,
            )
        # the clients of a held-out part never train; a data set need not have one
        heldout = None
        if (folder / HELDOUT).is_dir():
            heldout = self._cached_split(folder, HELDOUT, key).pair
        return self._raw(
            splits["train"],
            splits["test"],
            heldout,
        )

    def fetch_and_keep(self) -> Raw:
        """Download it and keep it in the cache, for `read` to find where there are no files."""
        assert self.fetch is not None, "a record names `hub` and `fetch`, or neither"
        # both before either is kept: half a data set would look like a whole one
        train = self.fetch(True)
        test = self.fetch(False)
        try:
            keep(self.kept_name("train"), train.tensors())
            keep(self.kept_name("test"), test.tensors())
        except OSError as error:
            raise InputError(
                f"{home()} cannot be written ({error}): set FEDSTEP_CACHE to another directory"
            ) from None
        return self._raw(train, test)

    def kept_name(self, split: str) -> str:
        """The name in the cache of what was fetched."""
        return f"hub-{self.name}-{split}"

    def has_hub_copy(self) -> bool:
        return all(place(self.kept_name(split)).is_file() for split in SPLITS)

    def _fetched(self) -> Raw | None:
        try:
            train = kept(self.kept_name("train"))
            test = kept(self.kept_name("test"))
        except DamagedCache as error:
            # nothing else has these samples: they are not made anew but fetched again
            raise InputError(f"{error}: fedstep data import {self.name} --hub") from None
        if train is None or test is None:
            return None
        return self._raw(Samples(**train), Samples(**test))

    def _cached_split(
        self,
        folder: Path,
        split: str,
        key: str,
    ) -> Samples:
        def make() -> dict[str, Tensor]:
            return self.read_split(folder, split).tensors()

        return Samples(**cached(f"{self.name}-{split}-{key}", make))

    def _raw(
        self,
        train: Samples,
        test: Samples,
        heldout: Pair | None = None,
    ) -> Raw:
        return Raw(
            train=train.pair,
            test=test.pair,
            ids=train.ids,
            heldout=heldout,
            transform=self._transform(),
        )

    def _folder(self, data: Path | None) -> Path:
        """The first of the folders that is not empty."""
        root = directory(data)
        # an empty folder is what a failed download leaves
        for name in self.folders:
            folder = root / name
            if folder.is_dir() and any(folder.iterdir()):
                return folder
        first = root / self.folders[0]
        raise Absent(f"{first} is not there or empty: put the files there ({LIST})")


@dataclass(frozen=True, kw_only=True)
class Changed(DataSet):
    """Another data set with its inputs changed."""

    base: DataSet
    change: Callable[[Tensor], Tensor]

    def read(self, data: Path | None) -> Raw:
        raw = self.base.read(data)
        return Raw(
            train=self._changed(raw.train),
            test=self._changed_or_none(raw.test),
            ids=raw.ids,
            heldout=self._changed_or_none(raw.heldout),
            transform=self._transform(),
        )

    def _changed_or_none(self, pair: Pair | None) -> Pair | None:
        if pair is None:
            return None
        return self._changed(pair)

    def _changed(self, pair: Pair) -> Pair:
        inputs, targets = pair
        key = checksum({"inputs": inputs})[:24]

        def make() -> dict[str, Tensor]:
            return {"inputs": self.change(inputs)}

        # kept, so that processes share the changed samples as they share the others
        return cached(f"{self.name}-{key}", make)["inputs"], targets


def every_fifth_for_testing(pair: Pair) -> Raw:
    """Samples without a test part of their own."""
    import torch

    inputs, targets = pair
    held = torch.arange(len(targets)) % 5 == 0
    return Raw(
        train=(inputs[~held], targets[~held]),
        test=(inputs[held], targets[held]),
    )
