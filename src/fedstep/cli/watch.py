"""`fedstep watch`: runs as they go on, in a browser."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedstep.run.terminal import console


def register(commands: Any) -> None:
    """Add the command to the parser."""
    watch = commands.add_parser(
        "watch",
        help="a page in the browser that follows runs while they go on",
    )
    watch.add_argument(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="results of fedstep run or fit(out=...), or a folder that holds several",
    )
    watch.add_argument("--port", type=int, default=0, help="port (default: one that is free)")
    watch.add_argument("--open", action="store_true", help="open the page in the browser")
    watch.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Serve the page until Ctrl-C."""
    import webbrowser

    from fedstep.watch.server import WatchServer

    with WatchServer(options.folder, options.port) as server:
        # at once, also into a pipe: whoever reads it wants to open the page now
        console().print(f"watching {options.folder} at {server.address}", soft_wrap=True)
        console().print("only this machine can open it; Ctrl-C ends it", soft_wrap=True)
        if options.open:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            # the way to end it, not an accident
            return
