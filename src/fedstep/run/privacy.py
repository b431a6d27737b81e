"""Which epsilon a run with `UserPrivacy` has spent (extra `privacy`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedstep.algorithm import Algorithm
from fedstep.core.errors import InputError
from fedstep.server.privacy import UserPrivacy


@dataclass(frozen=True)
class PrivacySpent:
    """(epsilon, delta) of the models of all rounds together, for one client's whole data.

    secret: while nobody knows who was in which cohort, which is drawn without replacement; two
    federations are neighbours where one client's data are replaced by others. open: where cohorts
    are known, or the seed that decides them; neighbours where one client's updates become 0, and a
    client that is asked in every round.
    """

    secret: float
    open: float
    delta: float
    rounds: int
    noise: float

    def __str__(self) -> str:
        return (
            f"user-level differential privacy of the model after {self.rounds} rounds, noise "
            f"{self.noise:g}, delta {self.delta:.3g}: epsilon {self.secret:.3g} while cohorts are "
            f"secret, {self.open:.3g} where they are known"
        )


def privacy_spent(
    noise: float,
    clients: int,
    per_round: int,
    rounds: int,
    delta: float | None = None,
) -> PrivacySpent:
    """Renyi accounting by `dp-accounting`; delta is clients^-1.1 where none is given."""
    if delta is None:
        delta = clients**-1.1
    if not 0 < delta < 1:
        raise InputError(f"delta={delta}: it must lie in (0, 1); try {clients**-1.1:.1g}")
    accounting = _accounting()
    relation = accounting.NeighboringRelation
    # replaced, a client changes a sum by twice its limit: half of the noise for as much
    replaced = accounting.GaussianDpEvent(noise / 2)
    if per_round < clients:
        replaced = accounting.SampledWithoutReplacementDpEvent(clients, per_round, replaced)
    left_out = accounting.GaussianDpEvent(noise)
    return PrivacySpent(
        secret=_epsilon(accounting, replaced, relation.REPLACE_ONE, rounds, delta),
        open=_epsilon(accounting, left_out, relation.REPLACE_SPECIAL, rounds, delta),
        delta=delta,
        rounds=rounds,
        noise=noise,
    )


def privacy_notes(
    algorithm: Algorithm,
    clients: int,
    per_round: int,
    rounds: int,
) -> tuple[str, ...]:
    """A line for the report of a private run; nothing for others."""
    if not isinstance(algorithm.guard, UserPrivacy):
        return ()
    try:
        spent = privacy_spent(algorithm.guard.noise, clients, per_round, rounds)
    except InputError as missing:
        return (f"epsilon was not computed: {missing}",)
    return (str(spent),)


def _epsilon(accounting: Any, event: Any, relation: Any, rounds: int, delta: float) -> float:
    accountant = accounting.rdp.RdpAccountant(neighboring_relation=relation)
    accountant.compose(event, rounds)
    return float(accountant.get_epsilon(delta))


def _accounting() -> Any:
    try:
        import dp_accounting
        import dp_accounting.rdp
    except ImportError:
        raise InputError("pip install 'fedstep[privacy]' (dp-accounting)") from None
    return dp_accounting
