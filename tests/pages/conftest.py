"""A real Chromium, where there is one: Debian's package `chromium`, driven by playwright."""

from __future__ import annotations

import shutil
from contextlib import ExitStack

import pytest
from visits import WIDE, Visit, served


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("no Chromium here: apt install chromium")
    with playwright.sync_playwright() as engines:
        # no sandbox: it cannot be had inside most containers, and the pages are our own
        chromium = engines.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def serve():
    """Servers that answer until the end of the test."""
    with ExitStack() as servers:
        yield lambda server: servers.enter_context(served(server))


@pytest.fixture
def visit(browser, serve):
    """Opens an address; at the end nothing may have been complained of.

    Its pages are closed before the servers that they ask: a lost connection is a complaint.
    """
    visits = []

    def opened(address, viewport=WIDE, scheme="light"):
        page = browser.new_page(viewport=viewport, color_scheme=scheme)
        made = Visit(page)
        visits.append(made)
        page.goto(address)
        return made

    yield opened
    for made in visits:
        made.page.close()
        assert made.complaints == []
