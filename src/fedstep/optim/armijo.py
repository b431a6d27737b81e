"""The stochastic Armijo search with its settings in the parameter groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.optim.searching import STEPS_PER_EPOCH, Searching
from fedstep.steps import conditions
from fedstep.steps.failures import Failure
from fedstep.steps.resets import Reset
from fedstep.steps.search import LineSearch

# What lies in the parameter groups; reset and failure are parts, which no scheduler changes.
SETTINGS = ("c", "max_step", "shrink", "start", "trials", "slack", "largest")


class Armijo(Searching):
    """SGD whose step is found by an Armijo search on the batch at hand (Vaswani et al., 2019).

        for x, y in loader:
            optimizer.step(lambda: loss(model(x), y))

    As `Searching(params, LineSearch(conditions.Armijo(c)))`, with the search's settings in the
    parameter groups, where schedulers and saved states find them. The defaults are those of
    `LineSearch`.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        c: float = conditions.Armijo.c,
        *,
        max_step: float = LineSearch.max_step,
        shrink: float = LineSearch.shrink,
        start: float | None = LineSearch.start,
        trials: int = LineSearch.trials,
        slack: float = LineSearch.slack,
        largest: bool = LineSearch.largest,
        reset: Reset = LineSearch.reset,
        failure: Failure = LineSearch.failure,
        weight_decay: float = 0.0,
        steps_per_epoch: int = STEPS_PER_EPOCH,
        buffers: Iterable[Tensor] = (),
    ) -> None:
        search = LineSearch(
            conditions.Armijo(c),
            reset=reset,
            failure=failure,
            max_step=max_step,
            shrink=shrink,
            start=start,
            trials=trials,
            slack=slack,
            largest=largest,
        )
        # checked by making the search; the groups then hold what schedulers may change
        settings = {name: getattr(search, name) for name in SETTINGS if name != "c"}
        super().__init__(
            params,
            search,
            weight_decay=weight_decay,
            steps_per_epoch=steps_per_epoch,
            buffers=buffers,
            c=c,
            **settings,
        )
        self._check_groups()

    @property
    def rule(self) -> LineSearch:
        """The search that the groups' settings describe; they may be changed between steps."""
        self._check_groups()
        settings = {name: self.param_groups[0][name] for name in SETTINGS}
        condition = conditions.Armijo(settings.pop("c"))
        given = super().rule
        assert isinstance(given, LineSearch)
        return LineSearch(condition, reset=given.reset, failure=given.failure, **settings)

    def _check_groups(self) -> None:
        first, *others = self.param_groups
        for group in others:
            for name in SETTINGS:
                if group[name] != first[name]:
                    raise InputError(
                        f"one search serves all groups, but {name} is {first[name]} in one "
                        f"and {group[name]} in another"
                    )
