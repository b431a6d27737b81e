"""What the labels of a task stand for."""

from __future__ import annotations

from string import ascii_lowercase, ascii_uppercase, digits

from fedstep.data.leaf import ALPHABET

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CHARACTERS = digits + ascii_uppercase + ascii_lowercase
NAMES = {"femnist": CHARACTERS, "femnist-ink": CHARACTERS, "cifar10": CIFAR10}


def label_name(task: str, label: int) -> str:
    """A word or a character, where there is a short one; else the number."""
    if task == "shakespeare":
        text = ALPHABET[label] if label < len(ALPHABET) else "other"
        return {" ": "space", "\n": "newline"}.get(text, text)
    known = NAMES.get(task, ())
    return known[label] if label < len(known) else str(label)
