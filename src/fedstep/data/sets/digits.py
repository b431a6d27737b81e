"""Small handwritten digits that come with scikit-learn."""

from __future__ import annotations

from fedstep.data.sets.record import MadeHere, Raw, every_fifth_for_testing


def _make() -> Raw:
    from fedstep.data.samples import digits

    return every_fifth_for_testing(digits())


DIGITS = MadeHere(
    name="digits",
    what="handwritten digits, 8 x 8 (scikit-learn's)",
    make=_make,
)
