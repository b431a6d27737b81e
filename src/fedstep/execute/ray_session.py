"""The connection to a Ray cluster, or a cluster of our own on this machine (extra `ray`)."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

# before Ray is imported, which reads it then: a local cluster listens on this machine alone
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray

from fedstep.core.errors import InputError

# `ray` itself too: whoever takes it from here has it imported after the settings above
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
        token = None
        if address is None:
            token = _own_token()
        try:
            ray.init(
                # never what Ray finds by itself: it may be somebody else's cluster, or a dead one
                address=address or "local",
                include_dashboard=False if address is None else None,
                log_to_driver=False,
                logging_level="ERROR",
            )
        except (ConnectionError, ValueError, RuntimeError) as error:
            first_line = str(error).strip().splitlines()[0]
            raise InputError(f"Ray at {address or 'this machine'}: {first_line}") from None
        return RaySession(owned=True, token=token)

    def close(self) -> None:
        if self.owned:
            ray.shutdown()
        if self.token is not None:
            shutil.rmtree(self.token, ignore_errors=True)
            for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"):
                os.environ.pop(name, None)
            read_token_settings_again()


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
