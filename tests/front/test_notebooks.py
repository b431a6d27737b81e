"""The notebooks are their pages, and run from top to bottom."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def maker():
    spec = importlib.util.spec_from_file_location("notebooks", DOCS / "notebooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGES = maker().PAGES


@pytest.mark.parametrize("page", PAGES)
def test_a_notebook_is_what_its_page_makes(page):
    made = maker().notebook((DOCS / f"{page}.md").read_text())
    stored = (DOCS / "notebooks" / f"{page}.ipynb").read_text()
    assert stored == made, "python docs/notebooks.py makes it anew"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_notebook_runs_from_top_to_bottom(page, tmp_path):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    if page == "lora":
        pytest.importorskip("peft")
    document = nbformat.read(DOCS / "notebooks" / f"{page}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        document, timeout=3600, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
