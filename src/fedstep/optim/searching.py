"""Any step rule, direction and move as a torch optimiser."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor

from fedstep.core.errors import InputError
from fedstep.core.types import Shapes
from fedstep.core.vec import Vec
from fedstep.local.directions import Direction, Steepest
from fedstep.local.moves import Move, Straight
from fedstep.optim.closure import ClosureFunction, LossClosure, RandomState
from fedstep.optim.parts import check_part, of_numbers, placed_on, put_grads, warn_of_rates
from fedstep.steps.rule import Outcome, StepRule

# Over how many steps `Grow()` may double a step where nobody says how long an epoch is: the SLS
# program's number. A federated client knows its epoch; a closure does not tell.
STEPS_PER_EPOCH = 500


class Searching(torch.optim.Optimizer):
    """Descent whose step is found by a step rule on the batch at hand.

        optimizer = Searching(model.parameters(), LineSearch(StrongWolfe()))
        for x, y in loader:
            optimizer.step(lambda: loss(model(x), y))

    The closure returns the loss. It is called once with gradients and once a trial without; one
    that calls backward itself (Lightning's do) is recognised, and each of its trials costs a
    backward pass too. Every call sees the same random numbers (dropout), and `buffers`, if given
    (`model.buffers()`), are left as the first call made them.

    `direction` and `move` are those of a federated client: `Momentum()`,
    `Preconditioned(Adam())`, `Extragradient()`. One step serves all parameter groups; a group may
    scale its share of the direction: `{"params": head, "scale": 10.0}`. `weight_decay` is
    decoupled, as in AdamW: the search does not see it, and x <- x - eta * weight_decay * x is
    added to the step eta it found. `lr` in the groups shows the last step taken.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        rule: StepRule,
        direction: Direction = Steepest(),
        move: Move = Straight(),
        *,
        weight_decay: float = 0.0,
        steps_per_epoch: int = STEPS_PER_EPOCH,
        buffers: Iterable[Tensor] = (),
        **settings: Any,
    ) -> None:
        check_part("rule", rule, StepRule, "LineSearch")
        check_part("direction", direction, Direction, "Momentum")
        check_part("move", move, Move, "Extragradient")
        if steps_per_epoch < 1:
            raise InputError(
                f"{type(self).__name__}(steps_per_epoch={steps_per_epoch}): "
                "the number of steps must be 1 or more; len(loader) is it"
            )
        self._rule = rule
        self._warned = False
        self.direction = direction
        self.move = move
        self.steps_per_epoch = steps_per_epoch
        self.buffers = list(buffers)
        defaults = {"scale": 1.0, "lr": 0.0, "weight_decay": weight_decay, **settings}
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters; one step then serves them too."""
        super().add_param_group(param_group)
        decay = self.param_groups[-1]["weight_decay"]
        if not decay >= 0:
            raise InputError(
                f"{type(self).__name__}(weight_decay={decay}): the weight must be 0 or more"
            )

    @property
    def rule(self) -> StepRule:
        """What finds the step."""
        return self._rule

    @property
    def _step_supports_amp_scaling(self) -> bool:
        # Read by nobody but GradScaler.step, in the middle of which this is the place to stop it.
        raise InputError(
            f"{type(self).__name__} does not work with a GradScaler: the search compares losses, "
            "and a scale that changes would spoil them. Use bfloat16, which needs no scaler: "
            'compute the loss in the closure under torch.autocast("cuda", dtype=torch.bfloat16), '
            "and call optimizer.step(closure)"
        )

    @torch.no_grad()
    def step(self, closure: LossClosure | None = None) -> Tensor:  # type: ignore[override]
        """Search and move; returns the loss before the step."""
        if closure is None:
            raise InputError(
                f"{type(self).__name__}.step needs a closure that returns the loss, "
                "as in step(lambda: loss(model(x), y))"
            )
        if not self._warned:
            self._warned = warn_of_rates(self, self._saved.get("last"))
        # taken before the closure is called: the random numbers of all trials begin here
        function = self._function(closure)
        x = function.read()
        memory = self._memory(x)
        user_grads = [p.grad for p in function.params]

        # a move may look at another point than x (stale reads); all others look at x
        view = self.move.view(
            x,
            x.new_tensor(memory["steps"]).long(),
            memory["move"],
        )
        if view is not x:
            function.write(view)
        try:
            function, f, g = function.first_call()
            random_after = RandomState.now(x.device)
            buffers_after = [buffer.clone() for buffer in self.buffers]
            grads = [p.grad for p in function.params]
        except BaseException:
            put_grads(function.params, user_grads)
            function.write(x)
            raise
        # the gradient of the batch is left to those who asked for it by calling backward
        if not function.calls_backward:
            grads = user_grads

        after = x
        try:
            after, outcome = self._search_and_move(function, x, view, f, g, memory)
        finally:
            # where the closure or the user broke in, x: nothing is left at a trial point
            function.write(after)
            random_after.restore()
            put_grads(function.params, grads)
            for buffer, value in zip(self.buffers, buffers_after, strict=True):
                buffer.copy_(value)
        memory["steps"] += 1
        self._store(memory, outcome)
        return f

    @property
    def trials(self) -> int:
        """Trials of the last step."""
        return int(self._last["trials"])

    @property
    def failed(self) -> bool:
        """Whether the last search found no step."""
        return bool(self._last["failed"])

    def _search_and_move(
        self,
        function: ClosureFunction,
        x: Vec,
        view: Vec,
        f: Tensor,
        g: Vec,
        memory: dict[str, Any],
    ) -> tuple[Vec, Outcome]:
        """The next point; what the parts remember is replaced in the memory."""
        scales = self._per_coordinate("scale", x)
        d, direction_state = self._suited_direction.apply(
            -g,
            view,
            memory["direction"],
        )
        outcome, search_state = self.rule.search(
            function,
            view,
            f,
            g,
            scales * d,
            memory["search"],
        )
        # a direction may be searched along one line and walked along another (AdaSLS)
        way = scales * self.direction.travel(d, direction_state)
        after, move_state = self.move(
            x,
            outcome.step,
            way,
            function.gradient,
            memory["move"],
        )
        decay = self._per_coordinate("weight_decay", x)
        if bool((decay > 0).any()):
            # at most to 0: a long step and a large weight must not turn the parameters round
            after = after - (outcome.step * decay).clamp(max=1.0) * x
        memory["search"] = search_state
        memory["direction"] = direction_state
        memory["move"] = move_state
        return after, outcome

    def _params(self) -> list[tuple[Tensor, dict[str, Any]]]:
        """The parameters that can move, each with its group."""
        pairs = []
        # asked at every step: layers may be frozen and thawed in between
        for group in self.param_groups:
            for p in group["params"]:
                if p.requires_grad:
                    pairs.append((p, group))
        return pairs

    def _function(self, closure: LossClosure) -> ClosureFunction:
        params = [p for p, _ in self._params()]
        if not params:
            raise InputError("no parameter requires a gradient: thaw one with requires_grad_()")
        devices = {p.device for p in params}
        if len(devices) != 1:
            raise InputError(f"the parameters lie on {len(devices)} devices: put them on one")
        if any(p.is_complex() for p in params):
            raise InputError(
                "a complex parameter: the search knows real numbers; "
                "keep torch.view_as_real(p) as the parameter"
            )
        device = devices.pop()
        dtype = params[0].dtype
        # models of mixed precision are searched in the widest of their types
        for p in params:
            dtype = torch.promote_types(dtype, p.dtype)
        like = torch.zeros((), dtype=dtype, device=device)
        steps = self._saved.get("steps", 0)
        return ClosureFunction(
            closure,
            params,
            RandomState.now(device),
            like=like,
            share=like + 1 / self.steps_per_epoch,
            round=steps // self.steps_per_epoch,
        )

    def _per_coordinate(self, setting: str, x: Vec) -> Tensor:
        """A setting of the groups for every entry of the flat vector; one number if all agree."""
        pairs = self._params()
        values = {float(group[setting]) for _, group in pairs}
        if len(values) == 1:
            return x.new_tensor(values.pop())
        pieces = []
        for p, group in pairs:
            pieces.append(x.new_full((p.numel(),), float(group[setting])))
        return torch.cat(pieces)

    @property
    def _saved(self) -> dict[Any, Any]:
        # torch keeps what is not keyed by a parameter as it is, and saves it
        return cast(dict[Any, Any], self.state)

    def _memory(self, x: Vec) -> dict[str, Any]:
        """What the parts remember, from the last step or a saved state."""
        saved = self._saved
        # the states take their shape from x, which is known only now
        memory: dict[str, Any] = {
            "search": self.rule.init(x),
            "direction": self._suited_direction.init(x),
            "move": self.move.init(x),
            "steps": saved.get("steps", 0),
        }
        # a vector of other parameters is of no use: what has one begins anew after a thaw
        same = saved.get("size", x.numel()) == x.numel()
        memory["size"] = x.numel()
        for name in ("search", "direction", "move"):
            if name in saved and (same or of_numbers(saved[name])):
                memory[name] = placed_on(x, saved[name])
        return memory

    @property
    def _suited_direction(self) -> Direction:
        """The direction for the parameters that can move now."""
        shapes: Shapes = tuple(tuple(p.shape) for p, _ in self._params())
        return self.direction.suited(shapes)

    def _store(self, memory: dict[str, Any], outcome: Outcome) -> None:
        # written at the end, so that a step that breaks leaves the state of the one before
        self._saved.update(memory)
        self._saved["last"] = {
            "trials": outcome.trials,
            "failed": outcome.failed,
            "step": float(outcome.step),
        }
        for group in self.param_groups:
            group["lr"] = float(outcome.step)

    @property
    def _last(self) -> dict[str, Any]:
        if "last" not in self._saved:
            raise InputError(f"{type(self).__name__} has not stepped yet: call step(closure) first")
        return cast(dict[str, Any], self._saved["last"])
