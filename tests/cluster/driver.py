"""A run on a cluster, as a program of its own: `driver.py FOLDER ADDRESS ROUNDS`.

ADDRESS "local" starts a cluster on this machine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# before Ray is imported, which reads it then: nothing listens beyond loopback
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "remote")]

from fakes import clients, model  # noqa: E402

from fedstep import InputError, fit  # noqa: E402
from fedstep.execute import Sequential  # noqa: E402
from fedstep.execute.ray import Ray  # noqa: E402

SETTINGS = dict(per_round=6, batch=2, local_steps=300, seed=5)


def train(executor, rounds, out=None):
    """The model after so many rounds of SCAFFOLD."""
    made = fit(
        model().module, clients(), "scaffold", rounds, out=out, executor=executor, **SETTINGS
    )
    return made.x


if __name__ == "__main__":
    folder, address, rounds = sys.argv[1:]
    place = None if address == "local" else address
    try:
        train(Ray(Sequential(), workers=1, address=place, patience=60.0), int(rounds), Path(folder))
    except InputError as error:
        sys.exit(str(error))
