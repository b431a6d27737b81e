"""The connection to a Ray cluster, or a cluster of our own on this machine (extra `ray`)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

# before Ray is imported, which reads it then: nothing is told to its makers
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray._private import ray_constants

from fedstep.core.errors import InputError

# `ray` itself too: whoever takes it from here has it imported after the setting above
__all__ = ["RaySession", "ray", "read_token_settings_again"]


@dataclass
class RaySession:
    """The connection to a cluster, and what was started for it."""

    owned: bool  # whether it ends with the executor
    token: Path | None  # a folder that is removed at the end

    @staticmethod
    def open(address: str | None) -> RaySession:
        if ray.is_initialized():
            return RaySession(owned=False, token=None)
        if address is not None:
            _connect(address, include_dashboard=None)
            return RaySession(owned=True, token=None)
        session = RaySession(owned=True, token=_own_token())
        try:
            with _loopback_only():
                # never what Ray finds by itself: it may be somebody else's cluster, or a dead one
                _connect("local", include_dashboard=False)
            _refuse_outer_address()
        except BaseException:
            session.close()
            raise
        return session

    def close(self) -> None:
        if self.owned:
            ray.shutdown()
        if self.token is not None:
            shutil.rmtree(self.token, ignore_errors=True)
            for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"):
                os.environ.pop(name, None)
            read_token_settings_again()


def _connect(address: str, include_dashboard: bool | None) -> None:
    try:
        ray.init(
            address=address,
            include_dashboard=include_dashboard,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except Exception as error:
        # a node that does not start in time is a bare Exception of Ray's
        first_line = str(error).strip().splitlines()[0]
        remedy = ""
        if address != "local":
            # Ray does not say that it was the token
            remedy = "; see that it runs, and that RAY_AUTH_TOKEN_PATH names its token"
        raise InputError(f"Ray at {address}: {first_line}{remedy}") from None


@contextmanager
def _loopback_only() -> Iterator[None]:
    """A cluster that is started meanwhile listens on this machine alone.

    Ray has one switch for it, read from the environment when Ray is imported. A program may have
    imported Ray long before us, so the switch itself is turned, and turned back: with it a driver
    could not join a cluster of several machines.
    """
    name = ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR
    before = ray_constants.ENABLE_RAY_CLUSTER
    in_environment = os.environ.get(name)
    ray_constants.ENABLE_RAY_CLUSTER = False
    os.environ[name] = "0"  # for Ray's own processes, which read it anew
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before
        os.environ.pop(name)
        if in_environment is not None:
            os.environ[name] = in_environment


def _refuse_outer_address() -> None:
    """The switch is not a promise of Ray's: a version without it must not go unnoticed."""
    for node in ray.nodes():
        address = node["NodeManagerAddress"]
        if not ip_address(address).is_loopback:
            raise InputError(
                f"Ray {ray.__version__} listens on {address} and not on this machine alone; "
                "use another version, or start a cluster yourself and give its address"
            )


def _own_token() -> Path | None:
    """A token for a cluster of our own, in a folder of its own and not in the user's home.

    Without one Ray of some versions lets anybody in who reaches the port, and of others writes one
    into the home directory. A token that the user has set up is left alone.
    """
    if "RAY_AUTH_MODE" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ:
        return None
    folder = Path(mkdtemp(prefix="fedstep-ray-"))
    path = folder / "token"
    path.write_text(uuid4().hex + uuid4().hex)
    path.chmod(0o600)
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(path)
    read_token_settings_again()
    return folder


def read_token_settings_again() -> None:
    """Ray reads them once, when it is imported, and keeps the token that it has seen."""
    from ray._raylet import AuthenticationTokenLoader, Config

    Config.initialize("")
    AuthenticationTokenLoader.instance().reset_cache()
