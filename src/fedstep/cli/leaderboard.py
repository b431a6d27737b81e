"""`fedstep leaderboard`: what it costs to reach a target, tuning counted."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fedstep.cli.options import add_data, add_json, add_workers, print_json, shipped_file
from fedstep.core.errors import InputError
from fedstep.core.printable import printable
from fedstep.leaderboard import FOLDER
from fedstep.run.terminal import console

if TYPE_CHECKING:
    from fedstep.leaderboard.entry import BoardEntry
    from fedstep.leaderboard.outcome import MatchOutcome
    from fedstep.leaderboard.read import Board
    from fedstep.leaderboard.standing import Standing

HOME = Path(FOLDER)


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    board = commands.add_parser(
        "leaderboard",
        help="tracks with a target, and what entries spend to reach it",
    )
    kinds = board.add_subparsers(metavar="what", required=True)
    listing = kinds.add_parser("list", help="tracks, entries and how they stand")
    listing.set_defaults(run=list_board)
    listing.add_argument("--markdown", action="store_true", help="print the standings as Markdown")
    add_json(listing)
    run = kinds.add_parser("run", help="tune an entry on a track, run its seeds, write the result")
    run.add_argument("track", metavar="TRACK", help="a TOML file, or the name of a track")
    run.add_argument(
        "entries",
        nargs="+",
        metavar="ENTRY",
        help="a TOML file, or the name of an entry",
    )
    run.set_defaults(run=run_entries, resumes=True)
    verify = kinds.add_parser("verify", help="run a seed of a result again and compare")
    verify.add_argument(
        "results",
        nargs="+",
        type=Path,
        metavar="RESULT",
        help="JSON files that leaderboard run has written",
    )
    verify.add_argument(
        "--number",
        type=int,
        default=0,
        help="which of the seeds, counted from 0 (default: 0)",
    )
    verify.set_defaults(run=verify_results)
    for command in (run, verify):
        add_data(command)
        add_workers(command)
    page = kinds.add_parser("page", help="one page with all results")
    page.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="the page (default: HOME/index.html)",
    )
    page.set_defaults(run=make_page)
    for command in (listing, run, page):
        command.add_argument(
            "--home",
            type=Path,
            default=HOME,
            help=f"folder of the results (default: {HOME})",
        )


def list_board(options: argparse.Namespace) -> None:
    """The tracks with the best entry of each, then the entries."""
    from fedstep.leaderboard.entry import shipped_entries
    from fedstep.leaderboard.read import read_board
    from fedstep.leaderboard.standings import roundup_markdown, roundups
    from fedstep.leaderboard.words import NO_RESULT

    board = read_board(options.home)
    if options.markdown:
        tables = [roundup_markdown(each) for each in roundups(board)]
        if not tables:
            console(stderr=True).print(NO_RESULT, soft_wrap=True)
        # print, not the console: no width of a terminal may break the lines
        print(printable("\n".join(tables)), end="")
        return
    entries = shipped_entries()
    if options.json:
        print_json(
            {
                "tracks": [asdict(shown.track) for shown in board.tracks],
                "entries": [asdict(entry) for entry in entries],
                "standings": [_record(each) for shown in board.tracks for each in shown.standings],
            }
        )
        return
    terminal = console(highlight=True)
    terminal.print(_track_table(board))
    terminal.print(_entry_table(entries))
    for warning in board.warnings:
        console(stderr=True).print(printable(warning), soft_wrap=True)


def _track_table(board: Board) -> Table:
    from fedstep.leaderboard.words import cost_text, target_text

    tracks = Table(box=None)
    # names are typed again behind `run`: they are not broken
    tracks.add_column("track", no_wrap=True)
    for head in ("what it is", "target", "rounds", "results", "first"):
        tracks.add_column(head)
    for shown in board.tracks:
        first = "-"
        if shown.standings:
            best = shown.standings[0]
            first = f"{best.outcome.entry.title}, {cost_text(best.total.rounds)} rounds"
        track = shown.track
        tracks.add_row(
            printable(track.name),
            printable(track.title),
            target_text(track),
            str(track.setting.rounds),
            str(len(shown.standings)),
            printable(first),
        )
    return tracks


def _entry_table(entries: Sequence[BoardEntry]) -> Table:
    table = Table("entry", box=None)
    # folded: a spec without spaces would be cut
    table.add_column("spec", overflow="fold")
    table.add_column("grid points")
    for entry in entries:
        points = 0
        if entry.grid:
            points = len(entry.method.candidates())
        table.add_row(entry.name, entry.spec, str(points))
    return table


def run_entries(options: argparse.Namespace) -> None:
    """One entry after another on one track."""
    from fedstep.leaderboard.contest import play
    from fedstep.leaderboard.entry import ENTRIES, read_entry
    from fedstep.leaderboard.match import Match
    from fedstep.leaderboard.outcome import outcome_path
    from fedstep.leaderboard.standing import standing_of
    from fedstep.leaderboard.track import TRACKS, read_track
    from fedstep.leaderboard.words import standing_text

    track = read_track(shipped_file("track", options.track, TRACKS))
    # all files are read first: a slip in the last one is not found after an hour
    entries = [read_entry(shipped_file("entry", name, ENTRIES)) for name in options.entries]
    for entry in entries:
        match = Match(track, entry)
        outcome = play(match, options.home, options.data, options.workers)
        words = standing_text(standing_of(outcome))
        path = outcome_path(options.home, match)
        console().print(printable(f"{entry.title}: {words}; {path}"), soft_wrap=True)


def verify_results(options: argparse.Namespace) -> int:
    """A line a result; exit code 1 where one does not agree."""
    from fedstep.leaderboard.contest import replay
    from fedstep.leaderboard.outcome import read_outcome

    outcomes = [read_outcome(path) for path in options.results]
    for path, outcome in zip(options.results, outcomes, strict=True):
        _check_number(options.number, path, outcome)
    agreed = True
    for path, outcome in zip(options.results, outcomes, strict=True):
        # from scratch: what lies in a folder already would only be read
        with TemporaryDirectory(prefix="fedstep-") as scratch:
            verdict = replay(
                outcome,
                options.number,
                Path(scratch),
                options.data,
                options.workers,
            )
        agreed = agreed and verdict.agrees
        console().print(printable(f"{path}: {verdict.line}"), soft_wrap=True)
    return int(not agreed)


def make_page(options: argparse.Namespace) -> None:
    """Write the page."""
    from fedstep.leaderboard.page import board_page
    from fedstep.leaderboard.read import read_board
    from fedstep.report.render import write_page

    board = read_board(options.home)
    path = options.out or options.home / "index.html"
    written = write_page(path, board_page(board))
    console().print(f"page: {written}", soft_wrap=True)


def _check_number(number: int, path: Path, outcome: MatchOutcome) -> None:
    seeds: Sequence[Any] = outcome.runs
    if not 0 <= number < len(seeds):
        raise InputError(f"--number {number}: {path} has {len(seeds)} seeds, counted from 0")


def _record(standing: Standing) -> dict[str, Any]:
    outcome = standing.outcome
    return {
        "track": outcome.track.name,
        "entry": outcome.entry.name,
        "place": standing.place,
        "tuning": asdict(outcome.tuning.spent),
        "reach": asdict(standing.reach),
        "total": asdict(standing.total),
        "score": asdict(standing.score),
        "digest": outcome.digest,
    }
