"""The runs of one method over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedstep.run.columns import ACCURACY, MetricInfo
from fedstep.run.history import Run
from fedstep.study.choices import Choice


@dataclass(frozen=True)
class Group:
    """A method's runs in the order of their seeds; a seed that has not begun is left out."""

    label: str
    runs: tuple[Run, ...]  # one for every seed
    choice: Choice  # what tuning chose; the spec itself where nothing was tuned
    published: Mapping[str, Sequence[float]]  # numbers of a paper, as the study's file has them
    seeds: tuple[int, ...]
    unfinished: tuple[int, ...]  # seeds whose runs are used up to where they stopped
    specs: tuple[Mapping[str, Any], ...]  # spec.json of every run
    varied: Mapping[str, float] = field(default_factory=dict)  # as the study's file has it
    family: str = ""  # the method that is varied

    @staticmethod
    def alone(run: Run) -> Group:
        """A run as a method with one seed, without a study and without tuning."""
        return Group(
            label=run.name,
            runs=(run,),
            choice=Choice(run.name, run.name, 0, {}),
            published={},
            seeds=(0,),
            unfinished=(),
            specs=({},),
        )

    def of_places(self, places: Sequence[int]) -> Group:
        """The same with these runs alone; a place counts from 0, in the order of the seeds."""
        seeds = tuple(self.seeds[place] for place in places)
        return replace(
            self,
            runs=tuple(self.runs[place] for place in places),
            seeds=seeds,
            unfinished=tuple(seed for seed in self.unfinished if seed in seeds),
            specs=tuple(self.specs[place] for place in places),
        )


def primary_metric(groups: Sequence[Group]) -> MetricInfo:
    """What is compared and drawn: the metric that the first run which measured anything names
    first.
    """
    for group in groups:
        for run in group.runs:
            if run.metrics:
                return run.metrics[0]
    return ACCURACY
