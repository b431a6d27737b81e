"""Secure aggregation: Flower's SecAgg+ around the sums of a method.

Flower's workflow is driven stage by stage with its own mod on the other end. What is ours is the
vector: the sums of `remote/sealed.py`, digits as whole numbers, which Flower's quantisation leaves
as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.common import Code, FitIns, FitRes, Parameters, Status, ndarrays_to_parameters
from flwr.common import parameters_to_ndarrays as arrays_of
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.compat.common.recorddict_compat import fitres_to_recorddict, parameters_to_arrayrecord
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from torch import Tensor

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.execute.crew import LOG
from fedstep.flower.masked import MaskedGrid
from fedstep.flower.records import records_of
from fedstep.remote.answer import ReplyForm
from fedstep.remote.deployment import Deployment
from fedstep.remote.node import refusal
from fedstep.remote.order import broadcast_tensors
from fedstep.remote.parcel import Parcel
from fedstep.remote.sealed import DIGIT_LIMIT, DIGITS, SealedForm, from_digits
from fedstep.remote.versions import CountedVersions
from fedstep.run.rounds import CohortResult, WorkRequest
from fedstep.server.guards import Guard, Open
from fedstep.server.privacy import UserPrivacy
from fedstep.server.weighting import Equal

FEWEST = 3  # nodes: of two, each knows the other one's summand
SHARES = 1.0  # every node has a share of every other one's keys
THRESHOLD = 2 / 3  # of the shares: so many nodes must stay to the end, and as many could collude
MODULUS = 2**32  # Flower's: masks and sums are taken modulo this
MOST = MODULUS // (2 * DIGIT_LIMIT) - 1  # nodes, or the sums of digits would not fit


def sealed_reply(message: Message, digits: Tensor) -> Message:
    """What a node hands to Flower's mod, which masks it before it leaves."""
    configs = message.content.config_records.get(RECORD_KEY_CONFIGS)
    # the mod takes the stage out: where it is still there, nobody would mask the answer
    if configs is None or Key.STAGE in configs:
        raise ValueError("the sums would leave unmasked: the app has no SecAgg+ mod, or no stage")
    parameters = ndarrays_to_parameters([digits.double().numpy()])
    # weight 1 of at most 1: all nodes count the same, the weights of clients are among the sums
    result = FitRes(Status(Code.OK, ""), parameters, num_examples=1, metrics={})
    return Message(fitres_to_recorddict(result, keep_input=False), reply_to=message)


@dataclass
class SealedExchange(SecAggPlusWorkflow):
    """One sum over nodes by Flower's four stages."""

    orders: Mapping[int, RecordDict]
    held: Mapping[int, int]  # how many clients of the cohort a node has
    needed: int  # clients: of fewer no sum is unmasked
    limit: float  # seconds a stage
    digits: Tensor | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__init__(
            SHARES,
            THRESHOLD,
            max_weight=1.0,
            # steps of one between -DIGIT_LIMIT and DIGIT_LIMIT: whole numbers stay as they are
            clipping_range=float(DIGIT_LIMIT),
            quantization_range=2 * DIGIT_LIMIT,
            modulus_range=MODULUS,
            timeout=self.limit,
        )

    def setup_stage(self, grid: Any, context: Any, state: Any) -> bool:
        return super().setup_stage(grid, context, state) and _without_the_absent(state)

    def share_keys_stage(self, grid: Any, context: Any, state: Any) -> bool:
        return super().share_keys_stage(grid, context, state) and _without_the_absent(state)

    def collect_masked_vectors_stage(self, grid: Any, context: Any, state: Any) -> bool:
        # our orders in the place of Flower's older instructions
        for node in state.nid_to_fitins:
            state.nid_to_fitins[node] = self.orders[node]
        if not super().collect_masked_vectors_stage(grid, context, state):
            return False
        # stopped while it is masked: the difference to the sum of another attempt would be what
        # the nodes sent that this one lacks
        staying = state.active_node_ids
        clients = sum(self.held[node] for node in staying)
        return len(staying) >= FEWEST and clients >= self.needed

    def configure_fit(self, *_: Any) -> list[tuple[Any, FitIns]]:
        """As the workflow asks a strategy: who takes part."""
        nothing = FitIns(Parameters([], ""), {})
        return [(SimpleNamespace(node_id=node), nothing) for node in self.orders]

    def aggregate_fit(
        self, _: int, results: list[tuple[Any, FitRes]], __: Any
    ) -> tuple[None, dict[str, Any]]:
        """As the workflow tells a strategy: every result has the mean over the nodes."""
        if results:
            (mean,) = arrays_of(results[0][1].parameters)
            # the sum of whole numbers again: the division by the number of nodes taken back
            self.digits = torch.round(torch.from_numpy(mean) * len(results)).to(torch.int64)
        return None, {}

    def run(self, grid: MaskedGrid, round: int) -> Tensor | None:
        """The sums of the digits; None: too few nodes stayed."""
        state = RecordDict()
        state[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: round})
        state[MAIN_PARAMS_RECORD] = parameters_to_arrayrecord(Parameters([], ""), False)
        context = Context(run_id=0, node_id=0, node_config={}, state=state, run_config={})
        strategy: Any = self
        # all that it asks of a grid
        whole_grid: Any = grid
        self(whole_grid, LegacyContext(context, strategy=strategy))
        return self.digits


def _without_the_absent(state: Any) -> bool:
    """Forget nodes that left before they had shared their keys: no mask is theirs.

    Flower would ask the others for shares that nobody has, and the round would be lost.
    """
    present = set(state.active_node_ids)
    state.sampled_node_ids = present
    state.nid_to_neighbours = {
        node: others & present
        for node, others in state.nid_to_neighbours.items()
        if node in present
    }
    # as at the start: of two, each would know the other one's summand
    return len(present) >= FEWEST


@dataclass
class SecureDeployment(Deployment):
    """A run whose server sees sums alone. Nothing of a single client can be checked."""

    def _work(self, request: WorkRequest, memories: CountedVersions) -> CohortResult:
        needed = self.patience.needed(request.cohort)
        for attempt in range(self.patience.tries):
            if attempt > 0:
                self._await_return(request.cohort)
            result = self._summed(request, memories, needed)
            if result is not None and result.total.clients >= needed:
                return result
            if result is not None:
                # it has been seen: another one of other nodes would tell what they differ in
                break
            LOG.warning(
                "round %d: no sum of %d clients or more (attempt %d of %d)",
                request.sent.round + 1,
                needed,
                attempt + 1,
                self.patience.tries,
            )
        raise InputError(
            f"round {request.sent.round + 1}: no secure sum of {needed} clients or more; all "
            "earlier rounds are kept: see that the nodes are up, or lower quorum, and start again"
        )

    def _summed(
        self,
        request: WorkRequest,
        memories: CountedVersions,
        needed: int,
    ) -> CohortResult | None:
        by_node = self._by_node(request.cohort, self.registry.refresh())
        if not FEWEST <= len(by_node) <= MOST:
            LOG.warning("secure sums need %d to %d nodes, here are %d", FEWEST, MOST, len(by_node))
            return None
        tensors = broadcast_tensors(request.sent)
        orders = {}
        held = {}
        for node, clients in by_node.items():
            parcel: Parcel = self._order(request, clients, memories).parcel(tensors)
            orders[node] = records_of({"order": parcel})
            held[node] = len(clients)
        form = SealedForm.of(self.algorithm, self.model, request.sent)
        grid = MaskedGrid(self.courier.grid, DIGITS * form.size)  # type: ignore[attr-defined]
        exchange = SealedExchange(orders, held, needed, self.patience.timeout)
        try:
            sums = exchange.run(grid, request.sent.round + 1)
        except Exception as error:
            # shares that do not fit together, say: whoever sent them spoils a round, not the run
            LOG.warning("round %d: no sum: %s", request.sent.round + 1, refusal(error))
            return None
        if sums is None:
            return None
        total = form.aggregate(from_digits(sums))
        missing = len(request.cohort) - total.clients - total.rejected
        # a node that does not keep to the protocol spoils a sum: what can be seen of it is this
        impossible = min(missing, total.clients, total.rejected) < 0
        if impossible or int(total.weight) != total.clients:
            LOG.warning("round %d: the sum is none of this cohort", request.sent.round + 1)
            return None
        empty = ReplyForm.of(self.algorithm, self.model, request.sent, probe=False).trace
        return CohortResult(total, (empty,), missing)


def sealable(algorithm: Algorithm, guard: Any) -> Algorithm:
    """The algorithm as secure sums allow it, or one line that says why they do not."""
    if guard is not False:
        raise InputError("secure=True: no guard sees single updates; give guard=False")
    if not isinstance(algorithm.weighting, Equal):
        raise InputError('secure=True: clients count the same; give weighting="equal"')
    if algorithm.correction.probes:
        raise InputError("secure=True: this method probes, and probes are not masked")
    return replace(algorithm, guard=Open())


def refuse_memory(algorithm: Algorithm, like: Tensor) -> None:
    """The server would not know whose memory has counted."""
    if algorithm.memory_init(like):
        raise InputError("secure=True: clients of this method remember; nobody knows who counted")


def refuse_known_noise(guard: Guard) -> None:
    """A seed that stands in the documentation keeps no secret."""
    if isinstance(guard, UserPrivacy) and guard.seed == 0:
        raise InputError("UserPrivacy(seed=0): anybody can take this noise away; give a secret one")
