"""Trajectories of the original programs: small extracts in the repository, the full files beside it where they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from programs import FULL, HERE


@pytest.fixture(params=["extract", "full"])
def oracle(request: pytest.FixtureRequest) -> Callable[[str], Any]:
    folder = HERE / "extracts" if request.param == "extract" else FULL
    if not folder.is_dir():
        pytest.skip("the full oracle files are not beside the repository; the extracts were tested")
    return lambda name: json.loads((folder / f"{name}.json").read_text())
