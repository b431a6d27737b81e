"""These tests need Flower: `make test-flower` has an environment of its own for them."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("flwr") is None:
    collect_ignore_glob = ["test_*.py"]
