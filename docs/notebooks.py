"""Make the notebooks of the pages that have them: `python docs/notebooks.py`.

A page is written once: its words become cells of Markdown, its Python blocks cells of code.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
HOME = DOCS / "notebooks"
PAGES = ("your-data", "your-method", "optim", "lora")
BLOCK = re.compile(r"^```python\n(.*?)^```\n?", re.M | re.S)
LINK = re.compile(r"\]\((?!\w+:)([^)#]+\.md)")


def main() -> None:
    """Write all of them."""
    HOME.mkdir(exist_ok=True)
    for page in PAGES:
        (HOME / f"{page}.ipynb").write_text(notebook((DOCS / f"{page}.md").read_text()))


def notebook(page: str) -> str:
    """A page as a notebook, without outputs: they would be those of one machine."""
    cells = []
    # every second part is what the pattern has caught, the code
    for number, part in enumerate(BLOCK.split(page)):
        kind = ("markdown", "code")[number % 2]
        if kind == "markdown":
            part = LINK.sub(r"](../\1", part)  # the notebook lies one folder deeper
        if part.strip():
            cells.append(_cell(kind, part.strip(), number))
    document = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, text: str, number: int) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "id": f"part-{number}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


if __name__ == "__main__":
    main()
