"""The program on the page about Ray runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"


def test_the_rounds_of_the_page_have_the_same_bits_and_leave_nothing_at_home(tmp_path):
    (text,) = re.findall(r"```python\n# rounds\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    program = tmp_path / "rounds.py"
    program.write_text(text)
    home = tmp_path / "home"
    home.mkdir()
    # as a stranger has it: nothing set, and an empty home
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=280,
        cwd=tmp_path,
        env={**environment, "HOME": str(home), "RAY_worker_niceness": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "same bits: True"
    assert not list(home.rglob("*token*"))
