"""A cluster of two nodes on this machine, for several tests."""

from __future__ import annotations

from contextlib import contextmanager
from uuid import uuid4

import pytest
import ray
from ray.cluster_utils import Cluster

from fedstep.execute.ray_session import read_token_settings_again


@contextmanager
def two_nodes(folder):
    """A head and a second node, one CPU each, with a token of their own."""
    token = folder / "token"
    token.write_text(uuid4().hex * 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
        read_token_settings_again()
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        made.add_node(num_cpus=1)
        try:
            yield made
        finally:
            if ray.is_initialized():
                ray.shutdown()
            made.shutdown()
    read_token_settings_again()
