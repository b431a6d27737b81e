"""Every file of results, damaged: the right answer, or one line that names the file.

`-m slow` does 1,000 flips and 200 truncations; a few of each are part of every run of the tests.
"""

from __future__ import annotations

import pytest
from damage import SUBJECTS, cut, flip, trials

HARMS = {"flipped": flip, "cut": cut}
FULL = {"flipped": 1000, "cut": 200}
FEW = 5


def sound(outcome):
    return {kind: count for kind, count in outcome.items() if kind not in ("right", "named")}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_a_damaged_file_is_named_or_harmless(subject, harm, tmp_path):
    made = SUBJECTS[subject](tmp_path / subject)
    wrong = sound(trials(made, HARMS[harm], FEW, tmp_path / f"{subject} {harm}", seed=0))
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_no_damage_is_believed(subject, harm, tmp_path):
    made = SUBJECTS[subject](tmp_path / subject)
    count = FULL[harm] // len(SUBJECTS)
    outcome = trials(made, HARMS[harm], count, tmp_path / f"{subject} {harm}", seed=1)
    print(subject, harm, {kind: n for kind, n in outcome.items() if kind in ("right", "named")})
    assert not sound(outcome)
