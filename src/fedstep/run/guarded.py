"""The guard that runs have where nothing else is said.

It belongs to runs and not to methods: a method is what its paper prints, and a paper has no
hostile clients.
"""

from __future__ import annotations

from dataclasses import replace

from fedstep.algorithm import Algorithm
from fedstep.server.guards import Open
from fedstep.server.norm_limit import NormLimit


def usually_guarded(algorithm: Algorithm) -> Algorithm:
    """The algorithm with the usual guard; one that has a guard of its own keeps it.

    Honest cohorts move by less than their spread over seeds: docs/trust.md has the figures.
    """
    if isinstance(algorithm.guard, Open):
        return replace(algorithm, guard=NormLimit())
    return algorithm
