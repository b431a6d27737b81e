"""Methods of other packages: found by their entry points, used by name."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fedstep
from fedstep import zoo
from fedstep.core.errors import InputError
from fedstep.leaderboard.entry import read_entry
from fedstep.leaderboard.match import Match
from fedstep.leaderboard.track import TRACKS, read_track
from fedstep.spec import _language, plugin_methods

METHOD = '''
from dataclasses import replace
from fedstep import zoo


def half(step: float = 0.2):
    """FedAvg at half the step."""
    return zoo.fedavg(step / 2)
'''


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package as pip leaves it, on the path of this process."""
    (tmp_path / "my_package.py").write_text(METHOD)
    info = tmp_path / "my_package-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.2\n")
    points = "[fedstep.methods]\nhalf = my_package:half\nbroken = my_package:nothing\n"
    (info / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    forget()
    with pytest.warns(UserWarning, match="my_package.broken is left out"):
        plugin_methods()
    yield tmp_path
    forget()


def forget():
    plugin_methods.cache_clear()
    _language.cache_clear()


def test_a_method_of_another_package_is_built_by_name_with_every_slot(installed):
    assert fedstep.build("my_package.half") == zoo.fedavg(0.1)
    made = fedstep.build("my_package.half(step=0.4, server=Extrapolate())")
    assert made.server == zoo.fedexp().server
    assert made.local.step == zoo.fedavg(0.2).local.step
    with pytest.raises(InputError, match=r"did you mean my_package\.half"):
        fedstep.build("my_package.halv")


def test_an_entry_of_another_package_has_its_version_among_what_draws_the_seeds(installed):
    path = installed / "mine.toml"
    lines = ["title = 'Half'", "spec = 'my_package.half'", "who = 'we'", "licence = 'MIT'"]
    path.write_text("\n".join([*lines, "package = 'my-package'"]))
    entry = read_entry(path)
    assert entry.version == "1.2"
    track = read_track(TRACKS / "digits-net.toml")
    before = Match(track, entry).seeds
    metadata = installed / "my_package-1.2.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.2", "1.3"))
    assert not set(Match(track, read_entry(path)).seeds) & set(before)


def test_a_worker_of_its_own_process_finds_it_too(installed):
    code = "import fedstep; print(fedstep.build('my_package.half').local.step)"
    environment = {"PYTHONPATH": str(installed), "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "Constant(step=0.1)", done.stderr
