"""What all tests share: how Hypothesis searches.

No test may depend on the clock: a busy machine is not a bug. Hence no deadlines, and no health check of slowness (the only
ones that measure time). `repeatable` is what `make test` runs: the same examples on every machine, nothing remembered between
runs. `pytest --hypothesis-profile=explore` draws new examples each time and remembers the failures.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

UNTIMED = [HealthCheck.too_slow]

settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=True,
    suppress_health_check=UNTIMED,
)
settings.register_profile("explore", deadline=None, print_blob=True, suppress_health_check=UNTIMED)
settings.load_profile("repeatable")
