"""Wall times in the README and in docs/speed.md, from benchmarks/results/w1.json and its like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from measured import measured
from pages import Block

# by the name of the file: what a round is
WORKLOADS = {
    "w1": "FEMNIST softmax regression",
    "w2": "CIFAR CNN",
    "w3": "character LSTM",
    "empty": "1,000 clients that do next to nothing",
}
NAMES = {
    "w1": "`w1`, softmax regression",
    "w2": "`w2`, CNN",
    "w3": "`w3`, LSTM",
    "empty": "1,000 clients that do next to nothing",
}


@dataclass(frozen=True)
class Competitor:
    """A line of the README: what runs on one core, and on two."""

    title: str
    one: str
    two: str = ""
    ours: bool = False


OURS = (
    Competitor("fedstep FedAvg", "fedstep FedAvg", "fedstep FedAvg p2", ours=True),
    Competitor("fedstep `fedpace`, which needs no step", "fedstep fedpace", ours=True),
    Competitor("line search: fedstep FedSLS", "fedstep FedSLS", "fedstep FedSLS p2", ours=True),
    Competitor(
        "line search: fedstep `fedsls_lean`",
        "fedstep FedSLS lean",
        "fedstep FedSLS lean p2",
        ours=True,
    ),
)
OTHERS = (
    Competitor("line search: bare torch", "bare search"),
    Competitor("line search: as the public SLS program", "bare search, seeded"),
    Competitor("bare torch", "bare torch t1", "bare torch p2"),
    Competitor("Flower", "", "Flower, 2 actors"),
    Competitor("pfl-research", "pfl t1", "pfl p2"),
    Competitor("BlazeFL", "BlazeFL, 1 thread", "BlazeFL, 2 threads"),
    Competitor("JAX scan, written by hand", "JAX scan, 1 core", "JAX scan, 2 devices"),
    Competitor("FedJAX", "FedJAX"),
    Competitor("line search: JAXopt", "JAXopt ArmijoSGD"),
)
# what was to be reached: on one core, on two, and of the default
AIMS = {
    "w1": ("", "", "0.35 of bare"),
    "w2": ("0.85", "0.48", "1.15"),
    "w3": ("0.9", "0.5", "1.15"),
    "empty": ("0.05", "", ""),
}


def blocks() -> Iterator[Block]:
    """Everybody, and ourselves against what we wanted."""
    yield Block("README.md", "speed", everybody)
    yield Block("docs/speed.md", "aims", aims)


@cache
def ratios(workload: str) -> dict[str, float]:
    """Wall time of a round by competitor, as a ratio to the bare loop on one core."""
    rows = measured(f"{workload}.json")["rows"]
    return {row["name"]: row["wall ratio"] for row in rows}


def ratio_text(workload: str, name: str) -> str:
    """Two digits after the point, or as many as tell something; empty where nothing was measured."""
    if name not in ratios(workload):
        return ""
    ratio = ratios(workload)[name]
    if ratio == 1:
        return "1"
    if ratio >= 10:
        return f"{ratio:.0f}"
    if ratio < 0.1:
        return f"{ratio:.3f}"
    return f"{ratio:.2f}"


def everybody() -> str:
    """A line for every competitor."""
    lines = [
        "| a round of | " + " | ".join(WORKLOADS.values()) + " |",
        "|---" * (len(WORKLOADS) + 1) + "|",
    ]
    for competitor in (*OURS, *OTHERS):
        cells = [cell(competitor, workload) for workload in WORKLOADS]
        title = bold(competitor.title) if competitor.ours else competitor.title
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(competitor: Competitor, workload: str) -> str:
    """One core, and behind a stroke two."""
    one = ratio_text(workload, competitor.one)
    two = ratio_text(workload, competitor.two)
    if not one and not two:
        return ""
    text = one or "-"
    if two:
        text += f" / {two}"
    return bold(text) if competitor.ours else text


def bold(text: str) -> str:
    """In Markdown."""
    return f"**{text}**"


def aims() -> str:
    """What was reached beside what was to be."""
    lines = [
        "| a round of | one core: FedAvg, of the bare loop | aim | two: FedAvg | aim | "
        "bare loop, two | `fedpace`, one core | of fedstep's FedAvg | aim |",
        "|---|" + "---:|" * 8,
    ]
    for workload, (one_aim, two_aim, default_aim) in AIMS.items():
        of_fedavg = ""
        if "fedstep fedpace" in ratios(workload):
            known = ratios(workload)
            of_fedavg = f"{known['fedstep fedpace'] / known['fedstep FedAvg']:.2f}"
        cells = [
            NAMES[workload],
            ratio_text(workload, "fedstep FedAvg"),
            one_aim,
            ratio_text(workload, "fedstep FedAvg p2"),
            two_aim,
            ratio_text(workload, "bare torch p2"),
            ratio_text(workload, "fedstep fedpace"),
            of_fedavg,
            default_aim,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
