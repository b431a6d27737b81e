"""The pace of methods that have one: a column, a curve, and a place in `fedstep watch`."""

from __future__ import annotations

import torch

import fedstep
from fedstep.analysis.group import Group
from fedstep.analysis.results import load_results
from fedstep.report.panels import step_charts
from fedstep.run.record import RoundReport
from fedstep.watch.progress_table import progress_section

TITLE = "Pace of the clients' steps"


def train(method, rounds, out=None):
    g = torch.Generator().manual_seed(0)
    clients = [
        (torch.randn(12, 3, generator=g), torch.randint(2, (12,), generator=g)) for _ in range(3)
    ]
    torch.manual_seed(0)
    options = dict(local_steps=2, batch=4, progress=False, out=out)
    return fedstep.fit(torch.nn.Linear(3, 2), clients, method, rounds, **options)


def pace_charts(result):
    charts = step_charts([Group.alone(result.run)])
    return [chart for chart in charts if chart.title == TITLE]


def test_a_row_has_the_pace_that_the_clients_of_its_round_were_sent():
    two = train("fedpace", 2)
    three = train("fedpace", 3)
    assert three.rows[0].pace == 1.0
    assert three.rows[2].pace == float(two.server.shared["step.pace.factor"])
    row = three.rows[2].to_dict()
    assert RoundReport.from_dict(row).pace == row["pace"]


def test_a_method_without_a_pace_has_no_column_and_no_curve():
    result = train("fedsls", 2)
    assert "pace" not in result.rows[0].to_dict()
    assert not pace_charts(result)


def test_the_pace_is_drawn_and_watched(tmp_path):
    result = train("fedpace", 3, tmp_path / "paced")
    train("fedsls", 2, tmp_path / "searched")
    (chart,) = pace_charts(result)
    assert list(chart.series[0].y) == [row.pace for row in result.rows]

    heads = {}
    for name in ("paced", "searched"):
        (table,) = progress_section(load_results(tmp_path / name), tmp_path / name).tables
        heads[name] = table.heads
        assert all(len(row.cells) == len(table.heads) for row in table.rows)
    assert heads["paced"][-1] == "pace"
    assert "pace" not in heads["searched"]
