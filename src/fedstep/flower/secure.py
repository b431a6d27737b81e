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
from flwr.serverapp import Grid
from torch import Tensor

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.execute.crew import LOG
from fedstep.flower.records import records_of
from fedstep.remote.answer import ReplyForm
from fedstep.remote.deployment import Deployment
from fedstep.remote.order import broadcast_tensors
from fedstep.remote.parcel import Parcel
from fedstep.remote.sealed import DIGIT_LIMIT, SealedForm, from_digits
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

    def collect_masked_vectors_stage(self, grid: Any, context: Any, state: Any) -> bool:
        # our orders in the place of Flower's older instructions
        for node in state.nid_to_fitins:
            state.nid_to_fitins[node] = self.orders[node]
        return super().collect_masked_vectors_stage(grid, context, state)

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

    def run(self, grid: Grid, round: int) -> Tensor | None:
        """The sums of the digits; None: too few nodes stayed."""
        state = RecordDict()
        state[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: round})
        state[MAIN_PARAMS_RECORD] = parameters_to_arrayrecord(Parameters([], ""), False)
        context = Context(run_id=0, node_id=0, node_config={}, state=state, run_config={})
        strategy: Any = self
        self(grid, LegacyContext(context, strategy=strategy))
        return self.digits


@dataclass
class SecureDeployment(Deployment):
    """A run whose server sees sums alone. Nothing of a single client can be checked."""

    def _work(self, request: WorkRequest, memories: CountedVersions) -> CohortResult:
        needed = self.patience.needed(request.cohort)
        for attempt in range(self.patience.tries):
            if attempt > 0:
                self._await_return(request.cohort)
            result = self._summed(request, memories)
            if result is not None and result.total.clients >= needed:
                return result
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

    def _summed(self, request: WorkRequest, memories: CountedVersions) -> CohortResult | None:
        by_node = self._by_node(request.cohort, self.registry.refresh())
        if not FEWEST <= len(by_node) <= MOST:
            LOG.warning("secure sums need %d to %d nodes, here are %d", FEWEST, MOST, len(by_node))
            return None
        tensors = broadcast_tensors(request.sent)
        orders = {}
        for node, clients in by_node.items():
            parcel: Parcel = self._order(request, clients, memories).parcel(tensors)
            orders[node] = records_of({"order": parcel})
        exchange = SealedExchange(orders, self.patience.timeout)
        sums = exchange.run(self.courier.grid, request.sent.round + 1)  # type: ignore[attr-defined]
        form = SealedForm.of(self.algorithm, self.model, request.sent)
        if sums is None or len(sums) != 3 * form.size:
            return None
        total = form.aggregate(from_digits(sums))
        missing = len(request.cohort) - total.clients - total.rejected
        # a node that does not keep to the protocol spoils a sum: what can be seen of it is this
        if missing < 0 or int(total.weight) != total.clients:
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
