"""A track and an entry are a study; its seeds come from the hash of both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from fedstep.leaderboard.entry import BoardEntry
from fedstep.leaderboard.track import Track
from fedstep.study.plan import Study, Tuning

SEED_BYTES = 4
# a seed of 31 bits: a number that people can read, and far too many to guess
DROPPED_BITS = 1


@dataclass(frozen=True)
class Match:
    """An entry on a track."""

    track: Track
    entry: BoardEntry

    @property
    def digest(self) -> str:
        """SHA-256 of what decides the result: the rules of the track and those of the entry."""
        rules = {"track": self.track.rules(), "entry": self.entry.rules()}
        # sorted: the order of the fields in a class is no rule
        text = json.dumps(rules, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def seeds(self) -> tuple[int, ...]:
        """Nobody picks them: another digit in either file gives others."""
        return tuple(self._drawn(str(number)) for number in range(self.track.seeds))

    @property
    def tuning_seed(self) -> int:
        return self._drawn("tuning")

    def study(self) -> Study:
        """What is run."""
        tuning = self.track.tuning
        return Study(
            name=f"{self.track.name}-{self.entry.name}",
            title=f"{self.track.title}: {self.entry.title}",
            setting=self.track.setting,
            seeds=self.seeds,
            methods=(self.entry.method,),
            tuning=Tuning(
                rounds=tuning.rounds,
                seed=self.tuning_seed,
                clients=tuning.clients,
            ),
            text=self.track.text,
        )

    def _drawn(self, purpose: str) -> int:
        text = f"{self.digest} {purpose}"
        hashed = hashlib.sha256(text.encode()).digest()
        return int.from_bytes(hashed[:SEED_BYTES], "big") >> DROPPED_BITS
