"""What would make a step of a deep model faster on one core? Variants of w2 and w3 in turns, CPU seconds as ratios.

python benchmarks/deep.py                   all variants of both workloads
python benchmarks/deep.py w2 --no-compile   without torch.compile, which takes a minute

A step is loss, gradient and SGD of one client; a trial is a pass forward without gradient. "off by" is the largest difference
of a gradient from that of the plain module, as a share of the largest gradient. A variant is asked once a repetition; ratios
are formed within a repetition, and their median is shown.
"""

from __future__ import annotations

import argparse
import copy
import os
import time
from statistics import median

import torch
from torch.nn import functional

from fedstep.models.pooling import with_quick_pools
from with_torch import clients_of, module_of
from work import load

CLIENTS = 4  # that are stacked as groups


class Plain:
    """The module as it is."""

    def __init__(self, module, x, y):
        self.module, self.x, self.y = module, x, y
        self.optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)
        self.samples = len(y)

    def loss(self):
        return functional.cross_entropy(self.module(self.x), self.y)

    def step(self):
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()

    def trial(self):
        with torch.no_grad():
            self.loss()

    def gradient(self):
        self.optimizer.zero_grad()
        self.loss().backward()
        return [p.grad.detach().clone() for p in self.module.parameters()]


class WithoutMkldnn(Plain):
    def loss(self):
        with torch.backends.mkldnn.flags(enabled=False):
            return super().loss()


class Groups(Plain):
    """Several clients of w2 as groups of one convolution; all have the same parameters here, which costs the same."""

    def loss(self):
        features = self.x.unflatten(0, (CLIENTS, -1)).transpose(0, 1).flatten(1, 2)
        for layer in self.module:
            if isinstance(layer, torch.nn.Conv2d):
                weight, bias = layer.weight.repeat(CLIENTS, 1, 1, 1), layer.bias.repeat(CLIENTS)
                features = functional.conv2d(features, weight, bias, groups=CLIENTS)
            elif isinstance(layer, torch.nn.Flatten):
                features = features.unflatten(1, (CLIENTS, -1)).transpose(0, 1).flatten(0, 1)
                features = layer(features)
            else:
                features = layer(features)
        return functional.cross_entropy(features, self.y)


def variants(workload, compiling):
    """By name; each has its own copy of the module, at the same start."""
    work = load(workload, "full")
    x, y = clients_of(work)[0]
    x, y = x[: work.batch], y[: work.batch]
    module = module_of(work)

    def twin():
        return copy.deepcopy(module)

    found = {"plain": Plain(twin(), x, y)}
    found["without mkldnn"] = WithoutMkldnn(twin(), x, y)
    if workload == "w2":
        last = torch.channels_last
        found["quick pools"] = Plain(with_quick_pools(twin()), x, y)
        found["channels last"] = Plain(twin().to(memory_format=last), x.to(memory_format=last), y)
        found["pictures channels last"] = Plain(twin(), x.to(memory_format=last), y)
        cohort = clients_of(work)[:CLIENTS]
        xs = torch.cat([x[: work.batch] for x, _ in cohort])
        ys = torch.cat([y[: work.batch] for _, y in cohort])
        found[f"{CLIENTS} clients, one batch"] = Plain(twin(), xs, ys)
        found[f"{CLIENTS} clients as groups"] = Groups(twin(), xs, ys)
    if compiling:
        began = sum(os.times()[:4])  # with the children that have ended: the C++ compiler's
        compiled = Plain(torch.compile(twin()), x, y)
        compiled.gradient()
        compiled.trial()
        print(f"{workload}: torch.compile took {sum(os.times()[:4]) - began:.0f} CPU s")
        found["torch.compile"] = compiled
    return found


def cpu(call):
    began = time.process_time()
    call()
    return time.process_time() - began


def off_by(variant, plain):
    """None where it is not a gradient of the same batch."""
    if variant.samples != plain.samples:
        return None
    pairs = list(zip(variant.gradient(), plain.gradient(), strict=True))
    largest = max(float(p.abs().max()) for _, p in pairs)
    return max(float((v - p).abs().max()) for v, p in pairs) / largest


def row(name, variant, plain, difference, steps, trials):
    """A row of the table, per sample."""
    share = plain.samples / variant.samples
    shown = "-" if difference is None else f"{difference:.1g}"
    return f"| {name} | {share * median(steps):.2f} | {share * median(trials):.2f} | {shown} |"


def main():
    parser = argparse.ArgumentParser(description="Variants of a step of a deep model, in turns.")
    parser.add_argument("workloads", nargs="*", default=["w2", "w3"], metavar="workload")
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for workload in options.workloads:
        found = variants(workload, not options.no_compile)
        plain = found["plain"]
        # before the first step: afterwards they are at different points
        differences = {name: off_by(v, plain) for name, v in found.items()}
        ratios = {name: ([], []) for name in found}
        for _ in range(options.repetitions + 1):  # the first warms up
            taken = {name: (cpu(v.step), cpu(v.trial)) for name, v in found.items()}
            for name, (step, trial) in taken.items():
                ratios[name][0].append(step / taken["plain"][0])
                ratios[name][1].append(trial / taken["plain"][0])
        print(f"\n| {workload} | step | trial | gradient off by |\n|---|---:|---:|---:|")
        for name, variant in found.items():
            steps, trials = (times[1:] for times in ratios[name])
            print(row(name, variant, plain, differences[name], steps, trials))


if __name__ == "__main__":
    main()
