"""Step rules alone, as torch optimisers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.vec import Scalar, Vec, dot, norm_sq
from fedstep.steps import conditions
from fedstep.steps.failures import Failure, Skip
from fedstep.steps.resets import Grow, Reset
from fedstep.steps.rule import StepRule
from fedstep.steps.search import LineSearch

SETTINGS = ("c", "max_step", "shrink", "start", "trials", "slack", "largest")


class Searching(torch.optim.Optimizer):
    """Gradient descent whose step is found by a step rule on the batch at hand.

        optimizer = Searching(model.parameters(), LineSearch(StrongWolfe()))
        for x, y in loader:
            optimizer.step(lambda: loss(model(x), y))

    The closure returns the loss and does not call backward; it is called once with gradients and once a trial without.
    Every call sees the same random numbers (dropout), and `buffers`, if given (`model.buffers()`), are left as the first
    call made them. One step serves all parameter groups; a group may scale its share of the direction:
    `{"params": head, "scale": 10.0}`. `lr` in the groups shows the last step taken.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        rule: StepRule,
        buffers: Iterable[Tensor] = (),
        **settings: Any,
    ) -> None:
        if not isinstance(rule, StepRule):
            raise InputError(f"Searching(rule={rule!r}): give a step rule such as LineSearch()")
        self.rule, self.buffers = rule, list(buffers)
        super().__init__(params, {"scale": 1.0, "lr": 0.0, **settings})

    def _rule(self) -> StepRule:
        return self.rule

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor:  # type: ignore[override]
        """Search and move; returns the loss before the step."""
        if closure is None:
            name = type(self).__name__
            raise InputError(
                f"{name}.step needs a closure that returns the loss, as in step(lambda: loss(model(x), y))"
            )
        rule, pairs = (
            self._rule(),
            [(p, g["scale"]) for g in self.param_groups for p in g["params"]],
        )
        params = [p for p, _ in pairs if p.requires_grad]
        if len({p.device for p in params}) != 1:
            raise InputError(
                f"the parameters lie on {len({p.device for p in params})} devices: put them on one"
            )
        dice = _Dice.now(params[0].device)
        with torch.enable_grad():
            loss = closure()
            grads = _gradients(loss, params)
        after, kept = _Dice.now(params[0].device), [b.clone() for b in self.buffers]

        x = torch.cat([p.reshape(-1) for p in params])
        g = torch.cat([v.reshape(-1) for v in grads])
        scales = [s for p, s in pairs if p.requires_grad]
        d = torch.cat([-s * v.reshape(-1) for s, v in zip(scales, grads, strict=True)])
        phi = _Closure(closure, params, dice, x)
        memory: dict[Any, Any] = self.state  # torch keeps what is not keyed by a parameter as it is
        state = memory.get("search") or rule.init(x)
        f = loss.detach().to(x.dtype)
        try:
            out, new = rule.search(phi, x, f, g, d, state)
            phi.write(x if float(out.step) == 0 else x + out.step * d)
        except (
            BaseException
        ):  # the closure broke, or the user did: nothing is left at a trial point
            phi.write(x)
            raise
        finally:
            after.throw()
        for buffer, value in zip(self.buffers, kept, strict=True):
            buffer.copy_(value)
        memory["search"] = new
        memory["last"] = {"trials": out.trials, "failed": out.failed}
        for group in self.param_groups:
            group["lr"] = float(out.step)
        return loss.detach()

    @property
    def _last(self) -> dict[str, Tensor]:
        memory: dict[Any, Any] = self.state
        if "last" not in memory:
            raise InputError(f"{type(self).__name__} has not stepped yet: call step(closure) first")
        return cast(dict[str, Tensor], memory["last"])

    @property
    def trials(self) -> int:
        """Trials of the last step."""
        return int(self._last["trials"])

    @property
    def failed(self) -> bool:
        """Whether the last search found no step."""
        return bool(self._last["failed"])


class Armijo(Searching):
    """SGD whose step is found by an Armijo search on the batch at hand (Vaswani et al., 2019).

        for x, y in loader:
            optimizer.step(lambda: loss(model(x), y))

    As `Searching(params, LineSearch(Armijo(c)))`, with the search's settings in the parameter groups, where schedulers and saved
    states find them.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        c: float = 0.1,
        *,
        max_step: float = 10.0,
        shrink: float = 0.9,
        start: float | None = None,
        trials: int = 100,
        slack: float = 4.0,
        largest: bool = False,
        reset: Reset = Grow(2.0, per=500),
        failure: Failure = Skip(),
        buffers: Iterable[Tensor] = (),
    ) -> None:
        self.reset, self.failure = reset, failure
        given = (c, max_step, shrink, start, trials, slack, largest)
        super().__init__(params, LineSearch(), buffers, **dict(zip(SETTINGS, given, strict=True)))
        self._rule()

    def _rule(self) -> LineSearch:
        """The search that the groups' settings describe; they may be changed between steps."""
        first = {name: self.param_groups[0][name] for name in SETTINGS}
        for group in self.param_groups[1:]:
            for name, value in first.items():
                if group[name] != value:
                    raise InputError(
                        f"one search serves all groups, but {name} is {value} in one and {group[name]} in another"
                    )
        condition = conditions.Armijo(first.pop("c"))
        return LineSearch(condition, self.reset, failure=self.failure, **first)


@dataclass(frozen=True)
class _Closure:
    """The closure as a function of the flat parameter vector."""

    closure: Callable[[], Tensor]
    params: list[Tensor]
    dice: _Dice
    start: Vec
    round: int = 0

    def slope(self, g: Vec, d: Vec) -> Scalar:
        return dot(g, d)

    def norm_sq(self, g: Vec) -> Scalar:
        return norm_sq(g)

    @property
    def share(self) -> Scalar:
        return self.start.new_ones(())

    @property
    def steps(self) -> Scalar:
        return self.start.new_ones(())

    @torch.no_grad()
    def write(self, x: Vec) -> None:
        for p, piece in zip(
            self.params, torch.split(x, [p.numel() for p in self.params]), strict=True
        ):
            p.copy_(piece.view_as(p))

    def __call__(self, x: Vec) -> Scalar:
        self.write(x)
        self.dice.throw()
        return self.closure().to(x.dtype)

    def along(self, x: Vec, d: Vec) -> _Line:
        return _Line(self, x, d)


@dataclass(frozen=True)
class _Line:
    """The closure along x + eta d."""

    phi: _Closure
    x: Vec
    d: Vec

    def __call__(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        return self.phi(self.x + eta * self.d)

    def derivative(self, eta: Scalar, rows: Tensor | None) -> Scalar:
        with torch.enable_grad():
            grads = _gradients(self(eta, rows), self.phi.params)
        return torch.cat([g.reshape(-1) for g in grads]) @ self.d


@dataclass(frozen=True)
class _Dice:
    """The global generators' state, to replay the same dropout masks."""

    cpu: Tensor
    cuda: Tensor | None
    device: torch.device

    @staticmethod
    def now(device: torch.device) -> _Dice:
        cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
        return _Dice(torch.get_rng_state(), cuda, device)

    def throw(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)


def _gradients(loss: Tensor, params: list[Tensor]) -> list[Tensor]:
    try:
        grads = torch.autograd.grad(loss, params, allow_unused=True)
    except RuntimeError as error:
        raise InputError(
            f"the closure must return a loss with a graph and not call backward itself ({error})"
        ) from None
    return [torch.zeros_like(p) if g is None else g for p, g in zip(params, grads, strict=True)]
