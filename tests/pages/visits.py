"""A page in a browser and what it did; a server in the background."""

from __future__ import annotations

from contextlib import contextmanager
from threading import Thread

WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


class Visit:
    """A page in the browser, and what it did besides being shown."""

    def __init__(self, page):
        self.page = page
        self.complaints = []
        self.requests = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _console(self, message):
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    @property
    def overflow(self):
        """Pixels that the page is wider than the screen."""
        element = "document.documentElement"
        return self.page.evaluate(f"{element}.scrollWidth - {element}.clientWidth")


@contextmanager
def served(server):
    """A server that answers in the background."""
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
