"""The README's code does what it says."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)


VISITS = "hospital,age,pressure,ill\n" + "".join(
    f"h{k % 3},{30 + k % 50},{100 + k % 7},{int(k % 50 > 25)}\n" for k in range(90)
)


def test_the_five_snippets_run_word_for_word(tmp_path, monkeypatch, capsys):
    """In their order, in one folder: the third opens what the second has left."""
    import torch

    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text(VISITS)
    torch.manual_seed(0)
    assert len(BLOCKS) == 5
    seen = [{} for _ in BLOCKS]
    for block, names in zip(BLOCKS, seen, strict=True):
        exec(block, names)
    model, table, opened, _, optimiser = seen
    assert model["result"].rows[-1].accuracy > 0.5  # of four classes
    assert (tmp_path / "report.html").exists()
    assert (tmp_path / "results/visits/model.safetensors").exists()
    assert [row.loss for row in opened["result"].rows] == [row.loss for row in table["result"].rows]
    loss = torch.nn.functional.cross_entropy(optimiser["model"](optimiser["x"]), optimiser["y"])
    assert loss < 0.75  # two classes that chance decides: it cannot be far below log 2


def test_the_snippets_are_short():
    assert [len(block.splitlines()) <= 10 for block in BLOCKS] == [True] * 5


def test_every_link_leads_somewhere():
    root = Path(__file__).parents[2]
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (root / target).exists(), target
