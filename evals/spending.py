"""What a trial costs: the model's answer and what its supervisors asked, each at its price, none guessed (H-133)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from evals.client import Guard, number, objects
from evals.journal import JsonObject
from evals.statistics.jsonable import Json
from evals.targets import Price
from supervisors.ask import is_local
from supervisors.nesting import children, walk
from supervisors.self_judge import SelfJudge
from supervisors.types import Endpoint, Supervisor

TARGET = "target"
"""Stands for the model that answers among those whose cost is unknown."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What is known of the cost of a trial.

    Args:
        known: US dollars that are known to be spent.
        unpriced: whose cost is not known: supervisors by name, or `TARGET`.
    """

    known: float = 0.0
    unpriced: tuple[str, ...] = ()

    def plus(self, other: Costs) -> Costs:
        """Return both together."""
        return Costs(self.known + other.known, tuple(dict.fromkeys([*self.unpriced, *other.unpriced])))

    def to_fields(self) -> JsonObject:
        """Return the members of a trial line: the cost, null where a part is unknown, which then stands beside it."""
        if not self.unpriced:
            return {"cost_usd": self.known}
        return {"cost_usd": None, "cost_known_usd": self.known, "unpriced": list(self.unpriced)}


@dataclass(frozen=True, slots=True)
class Prices:
    """What is known of the prices of a run.

    Args:
        target: of the model that answers, None when unknown.
        unpaid: supervisors that cost nothing, whatever their verdicts say.
        paid: the others, members as ``panel/a``; None where a running proxy's own policy decides who is asked.
    """

    target: Price | None
    unpaid: frozenset[str] = frozenset()
    paid: frozenset[str] | None = frozenset()

    def of_answer(self, fields: JsonObject) -> Costs:
        """Return the cost of the model's answer, from the tokens of a trial line."""
        usage: Json = fields.get("usage")
        counts = usage if isinstance(usage, dict) else {}
        tokens_in, tokens_out = number(counts.get("prompt_tokens")), number(counts.get("completion_tokens"))
        if self.target is not None and tokens_in is not None and tokens_out is not None:
            return Costs(self.target.cost(int(tokens_in), int(tokens_out)))
        uncalled = fields.get("blocked") and usage is fields.get("answer") is None
        return Costs() if uncalled else Costs(unpriced=(TARGET,))

    def of_verdicts(self, record: JsonObject) -> Costs:
        """Return the cost of the verdicts of a record: of each that asked somebody, members instead of their panel."""
        rows = objects(record.get("verdicts"))
        names = {str(row.get("supervisor")) for row in rows}
        costs = Costs()
        for row in rows:
            name = str(row.get("supervisor"))
            if name not in self.unpaid and not any(other.startswith(f"{name}/") for other in names):
                costs = costs.plus(self._of_verdict(name, row))
        return costs

    def _of_verdict(self, name: str, row: JsonObject) -> Costs:
        cost = number(row.get("cost"))
        if cost is not None:
            return Costs(cost)
        if row.get("cached") is True or row.get("cause") == "skipped":
            return Costs()
        silent = self.paid is None and row.get("tokens") is None  # of a running proxy nobody knows who asks outside
        return Costs() if silent else Costs(unpriced=(name,))

    def of_lost_verdicts(self) -> Costs:
        """Return the cost of verdicts that nobody shows."""
        return Costs(unpriced=tuple(sorted(self.paid or ())))


def spent_by(line: JsonObject) -> float:
    """Return the dollars that a trial line says are spent, as far as they are known."""
    cost = number(line.get("cost_usd"))
    return (number(line.get("cost_known_usd")) if cost is None else cost) or 0.0


def prices_of(guard: Guard, target: Price | None, *, proxied: bool) -> Prices:
    """Return the prices of a run.

    Args:
        guard: who judges.
        target: price of the model that answers.
        proxied: a running proxy judges by its own policy.
    """
    if proxied:
        return Prices(target, paid=None)
    unpaid = unpaid_supervisors(guard)
    return Prices(target, unpaid, frozenset([name for name, one in _leaves(guard) if not is_local(one)]))


def _leaves(guard: Guard) -> Iterator[tuple[str, Supervisor]]:
    for name, one in guard.supervisors.items():
        yield from [(full, part) for full, part in walk(name, one) if not children(part)]


def unpaid_supervisors(guard: Guard) -> frozenset[str]:
    """Return the names of all supervisors, members too, that wait on nothing outside the process: they cost nothing."""
    parts = [part for name, one in guard.supervisors.items() for part in walk(name, one)]
    return frozenset([name for name, supervisor in parts if is_local(supervisor)])


def unpriced_supervisors(guard: Guard, target: Price | None) -> Mapping[str, str]:
    """Return the supervisors asked whose price no setting names, each with what would be right.

    A server that reports the cost of its calls is believed all the same; only that is not known before.
    """
    policies = guard.policies().values()
    stages = [stage for policy in policies for stage in (policy.input, policy.output)]
    asked = {name for stage in stages for name in (*stage.forced, *stage.optional)}
    found: dict[str, str] = {}
    for name, one in _leaves(guard):
        if name.split("/", 1)[0] in asked:
            missing = _missing_price(one, guard, target)
            found |= {name: missing} if missing else {}
    return found


def _missing_price(supervisor: Supervisor, guard: Guard, target: Price | None) -> str | None:
    if is_local(supervisor):
        return None
    if isinstance(supervisor, SelfJudge):
        return None if target is not None else "the price of the target"
    endpoint: object = getattr(supervisor, "endpoint", None)
    if not isinstance(endpoint, Endpoint):
        return "no price can be given for it"
    models = guard.config.served_models()
    model = None if endpoint.url is not None else models.get(endpoint.model) or models.get("*")
    if model is None:
        return "its model has an address of its own; name it under 'models', with a 'price'"
    return None if model.price is not None else f"models.{endpoint.model}.price"


def describe_unpriced(found: Mapping[str, str]) -> str:
    """Say in one line whose price is missing and what would be right."""
    return "; ".join([f"{name} ({what})" for name, what in found.items()])


def check_budget(
    limited: float | None, spec: str, target: Price | None, unpriced: Mapping[str, str], *, calls_model: bool
) -> str | None:
    """Return why a budget cannot be kept, None when it can.

    Args:
        limited: US dollars, None without a budget.
        spec: the target as written.
        target: its price.
        unpriced: supervisors without a price, and what is missing.
        calls_model: the target is asked, not supervisors alone.
    """
    if limited is None:
        return None
    if target is None and calls_model:
        return f"--max-cost needs the price of {spec}: give --price IN:OUT, or --allow-unpriced to go without"
    if unpriced:
        return (
            f"--max-cost needs the price of what supervisors ask, and these have none: {describe_unpriced(unpriced)}; "
            "--allow-unpriced counts what their servers report"
        )
    return None


def count_unpriced(lines: Iterable[JsonObject]) -> Mapping[str, int]:
    """Count the trial lines in which the cost of somebody is unknown, by name."""
    found: dict[str, int] = {}
    for line in lines:
        names: Json = line.get("unpriced")
        for name in names if isinstance(names, list) else []:
            found[str(name)] = found.get(str(name), 0) + 1
    return found
