"""The program on the page about Flower runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "flower.md"


def test_the_first_run_of_the_page_learns(tmp_path):
    (text,) = re.findall(r"```python\n# local\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)
    program = tmp_path / "local.py"
    program.write_text(text)
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=280, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    first, second, third = eval(done.stdout.splitlines()[-1])
    assert first > second > third
