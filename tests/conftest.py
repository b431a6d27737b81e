"""What all tests share: how Hypothesis searches, and where models are computed.

No test may depend on the clock: a busy machine is not a bug. Hence no deadlines, and no health check of slowness (the only
ones that measure time). `repeatable` is what `make test` runs: the same examples on every machine, nothing remembered between
runs. `pytest --hypothesis-profile=explore` draws new examples each time and remembers the failures.

`FEDSTEP_DEVICE=cuda make test` puts the models of `fit` and of studies on that device; where torch cannot
use it, one line says so.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from fedstep.core.errors import InputError
from fedstep.run.devices import chosen_device

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


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a device that is none before thousands of tests fail of it."""
    try:
        chosen_device()
    except InputError as error:
        raise pytest.UsageError(str(error)) from None
