"""How large what a client claims is: a guard compares it with what the others claim."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class MessageKind:
    """A value of a message that a guard measures by its length; most are."""

    def under(self, owner: str) -> MessageKind:
        """The same where the values of a message bear the name of their owner in front."""
        return self


@dataclass(frozen=True)
class Bounded(MessageKind):
    """One that its part holds within the bounds of an honest client: a guard has nothing to add."""


@dataclass(frozen=True)
class Logarithm(MessageKind):
    """The logarithm of a positive number: far too small does as much harm as far too large.

    count: the name of the value that says, by 1 or 0, whether the client claims anything; without
    a name every client does.
    """

    count: str = ""

    def under(self, owner: str) -> MessageKind:
        if not self.count:
            return self
        return replace(self, count=f"{owner}.{self.count}")
