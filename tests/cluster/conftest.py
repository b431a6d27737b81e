"""These tests need Ray: `make test-ray` has an environment of its own for them."""

from __future__ import annotations

import os
from importlib.util import find_spec

# Ray makes its workers polite (nice 15): on a busy machine they would hardly get to run
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112

# before any test imports Ray, which reads it then: clusters that tests start themselves
# (`ray.cluster_utils`) listen on loopback alone
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"

if find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]
