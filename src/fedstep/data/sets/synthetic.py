"""Clusters in forty dimensions."""

from __future__ import annotations

from fedstep.data.sets.record import MadeHere, Raw, every_fifth_for_testing


def _make() -> Raw:
    from fedstep.data.samples import synthetic

    return every_fifth_for_testing(synthetic())


SYNTHETIC = MadeHere(
    name="synthetic",
    what="generated clusters, 10 classes",
    make=_make,
)
