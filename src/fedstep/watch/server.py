"""A page server for one person on one machine: loopback only, and a secret in the address."""

from __future__ import annotations

import secrets
from functools import partial
from hmac import compare_digest
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from urllib.parse import unquote

from fedstep.core.errors import InputError
from fedstep.report.page import Page
from fedstep.report.render import render
from fedstep.watch.folders import content_mark, homes, is_home
from fedstep.watch.live import home_page, index_page

LOOPBACK = "127.0.0.1"
AT = "at/"  # before the name of one of several results


class WatchServer(ThreadingHTTPServer):
    """Serves the pages of a folder below a token that nobody can guess."""

    daemon_threads = True  # a browser that keeps its connection does not keep the command alive

    def __init__(self, folder: Path, port: int = 0) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; give the results of a run or a study")
        self.folder = folder.resolve()
        self.token = secrets.token_urlsafe(18)
        # of the scripts: one that a label has smuggled into the page has none and is not run
        self.nonce = secrets.token_urlsafe(18)
        self._pages: dict[Path, tuple[str, bytes]] = {}  # by home: mark of its content, page
        self._drawing = Lock()
        try:
            super().__init__((LOOPBACK, port), WatchHandler)
        except (OSError, OverflowError) as error:
            raise InputError(f"--port {port}: {error}; give another, or none") from None

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    def page(self, name: str) -> bytes | None:
        """The page of one of the results, or of all; None where there is none of that name."""
        if name:
            named = {str(home.relative_to(self.folder)): home for home in homes(self.folder)}
            if name not in named:
                return None
            return self._drawn(named[name], one=True)
        return self._drawn(self.folder, one=is_home(self.folder))

    def _drawn(self, place: Path, one: bool) -> bytes:
        """Drawn once for every change: a page of a long study takes a second."""
        make = partial(home_page, place)
        if not one:
            make = partial(index_page, place)
        with self._drawing:
            mark = content_mark(place)
            known = self._pages.get(place)
            if known is None or known[0] != mark:
                known = (mark, self._rendered(make(), mark))
                self._pages[place] = known
            return known[1]

    def _rendered(self, page: Page, mark: str) -> bytes:
        text = render(
            page,
            "watch.html",
            mark=mark,
            nonce=self.nonce,
        )
        return text.encode()


class WatchHandler(BaseHTTPRequestHandler):
    """Answers GET: a page, or the mark that tells a page whether it is old."""

    server: WatchServer
    server_version = "fedstep"
    sys_version = ""  # nobody needs to know Python's

    def do_GET(self) -> None:  # the name that http.server calls
        path = self._path()
        if path is None:
            # not 403: whoever has no token learns nothing
            self._answer(HTTPStatus.NOT_FOUND, b"not found", "text/plain")
            return
        if path == "mark" or path.endswith("/mark"):
            self._mark(path.removesuffix("mark"))
            return
        page = self.server.page(_home_name(path))
        if page is None:
            self._answer(HTTPStatus.NOT_FOUND, b"no such results", "text/plain")
            return
        self._answer(HTTPStatus.OK, page, "text/html")

    def _path(self) -> str | None:
        """What follows the token; None where the token or the host is not ours."""
        hosts = {f"{name}:{self.server.server_port}" for name in (LOOPBACK, "localhost")}
        # another name that leads here is that of a page which wants to read ours
        if self.headers.get("Host") not in hosts:
            return None
        token, slash, path = self.path.removeprefix("/").partition("/")
        if not slash or not compare_digest(token.encode(), self.server.token.encode()):
            return None
        return unquote(path.partition("?")[0])

    def _mark(self, path: str) -> None:
        name = _home_name(path)
        place = self.server.folder
        if name:
            # only looked at, and only below the folder: `page` knows which names there are
            place = (place / name).resolve()
        if not place.is_relative_to(self.server.folder):
            self._answer(HTTPStatus.NOT_FOUND, b"no such results", "text/plain")
            return
        self._answer(HTTPStatus.OK, content_mark(place).encode(), "text/plain")

    def _answer(
        self,
        status: HTTPStatus,
        body: bytes,
        kind: str,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header(
            "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
            f"script-src 'nonce-{self.server.nonce}'; frame-ancestors 'none'; base-uri 'none'",
        )
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a page asks every second."""


def _home_name(path: str) -> str:
    return path.removeprefix(AT).rstrip("/")
