"""A track: a task, a target, and the budget to reach it with."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from fedstep.core.errors import InputError
from fedstep.study.plan import Count, Setting, Text
from fedstep.study.study_file import SETTINGS, Table, parse_table, setting_of
from fedstep.study.typed import check_names, typed

TRACKS = Path(__file__).parent / "tracks"
FEWEST_SEEDS = 3

# of a file, without its ending: it becomes a part of paths, commands and links
FileName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=100,
        description="the file a name of letters, digits, dots and hyphens",
    ),
]
Seeds = Annotated[int, Meta(ge=FEWEST_SEEDS, le=100, description="a whole number, 3 to 100")]
Target = Annotated[float, Meta(description="a value of the metric, such as 0.9")]
Size = Annotated[Literal["small", "large"], Meta(description="'small' or 'large'")]
SIZES: tuple[Size, ...] = ("small", "large")


@dataclass(frozen=True)
class TrackTuning:
    """What every grid point of an entry is given."""

    rounds: Count
    clients: Count  # set aside to choose by: no grid point is scored on a test sample


@dataclass(frozen=True)
class _Heading:
    """What a file holds besides the fields of a setting."""

    name: FileName
    title: Text
    target: Target
    tuning: Annotated[Table, Meta(description="a table such as { rounds = 15, clients = 6 }")]
    text: Text = ""
    window: Count = 5
    seeds: Seeds = FEWEST_SEEDS
    size: Size = "small"


@dataclass(frozen=True)
class Track:
    """A task with a target; `setting.rounds` is the budget of a run."""

    name: FileName
    title: Text
    target: Target  # of the first metric
    tuning: TrackTuning
    setting: Setting
    text: Text = ""
    window: Count = 5  # evaluations whose mean has to reach the target
    seeds: Seeds = FEWEST_SEEDS
    size: Size = "small"  # small: minutes on two cores, no files

    def rules(self) -> dict[str, Any]:
        """All that decides a result: a track of other words is the same track."""
        words = ("name", "title", "text", "size")
        return {key: value for key, value in asdict(self).items() if key not in words}


HEADINGS = [each.name for each in fields(_Heading) if each.name != "name"]


def read_track(path: Path) -> Track:
    """A track's file."""
    try:
        return _track(path.stem, parse_table(path.read_bytes()))
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such track (fedstep leaderboard list names those that come along)"
        ) from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def shipped_tracks() -> list[Track]:
    """The tracks that come with the package, the small ones first."""
    tracks = [read_track(path) for path in sorted(TRACKS.glob("*.toml"))]
    return sorted(tracks, key=lambda track: SIZES.index(track.size))


def _track(name: str, table: Table) -> Track:
    # `tuning` gives clients to set aside: a setting that does so would do it twice
    settings = [key for key in SETTINGS if key != "set_aside"]
    check_names(table, [*HEADINGS, *settings])
    given = {key: table[key] for key in HEADINGS if key in table}
    heading = typed(_Heading, {**given, "name": name})
    return Track(
        name=heading.name,
        title=heading.title,
        target=heading.target,
        tuning=typed(TrackTuning, heading.tuning),
        setting=setting_of(table, check=True),
        text=heading.text.strip(),
        window=heading.window,
        seeds=heading.seeds,
        size=heading.size,
    )
