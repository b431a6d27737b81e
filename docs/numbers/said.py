"""The sentences whose numbers are made."""

from __future__ import annotations

from sentences import Sentence

SENTENCES: tuple[Sentence, ...] = ()
