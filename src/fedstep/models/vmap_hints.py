"""What torch says of blocks to its own developers is not said to ours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# A layer without a rule for blocks is run client by client inside of one pass: slower, and right.
# Nobody who trains a model can do anything about it.
HINT = "There is a performance drop because we have not yet implemented the batching rule"


@contextmanager
def without_vmap_hints() -> Iterator[None]:
    """While models are tried and trained; all other warnings are shown."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=HINT)
        yield
