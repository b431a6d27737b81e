"""The README's code does what it says."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)


def test_ten_lines_on_your_own_model_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(BLOCKS[0], {})
    accuracy = float(capsys.readouterr().out.split()[0])
    assert accuracy > 0.5  # four classes
    assert (tmp_path / "report.html").exists()


def test_own_table_lines_run(tmp_path, monkeypatch):
    import numpy as np

    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=300)
    features = rng.normal(size=(300, 4)) + 2 * np.eye(3, 4)[labels]
    monkeypatch.chdir(tmp_path)
    np.savetxt("mine.csv", np.c_[features, labels], delimiter=",", header="a,b,c,d,class")
    seen = {}
    exec(BLOCKS[1], seen)
    assert seen["result"].rows[-1].accuracy > 0.6
    assert (tmp_path / "results/mine/model.safetensors").exists()


def test_the_optimizer_lines_run():
    import torch

    import fedstep

    model = torch.nn.Linear(3, 2)
    x, y = torch.randn(20, 3), torch.randint(2, (20,))
    loss = torch.nn.functional.cross_entropy
    before = float(loss(model(x), y).detach())
    exec(BLOCKS[2], {"fedstep": fedstep, "model": model, "loss": loss, "loader": [(x, y)] * 5})
    assert float(loss(model(x), y).detach()) < before


def test_every_link_leads_somewhere():
    root = Path(__file__).parents[2]
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (root / target).exists(), target
