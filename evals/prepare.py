"""From options to a plan: everything is read and checked before the first call, and nothing is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evals.cases import Suite, lock_of
from evals.client import Guard, check_local, foreign_guard, load_guard
from evals.contamination import classify, refuse_seen
from evals.datasets import load_card, read_dataset
from evals.datasets.lock import LockEntry, lock_entry
from evals.datasets.sampling import ids_sha256
from evals.guarded import check_served
from evals.journal import JsonObject, sha256_json
from evals.options import RunOptions
from evals.plan import Design, Plan, build_plan
from evals.selection import select
from evals.shards import parse_shard, plan_sha256, take
from evals.spending import check_budget, unpriced_supervisors
from evals.statistics.jsonable import to_json
from evals.targets import Price, Target, parse_target
from evals.tracing import ORIGIN, judged_sides, lock_of_traces, trace_items
from evals.traffic import Span, lock_traffic, path_of, read_traffic
from evals.transforms import find_rules, with_variants
from evals.types import Item
from supervisors.errors import ConfigError, DatasetError
from supervisors.types import Stage


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that is ready to start: nothing was called yet.

    Args:
        identity: what must be equal to continue an earlier run (H-116).
    """

    options: RunOptions
    target: Target
    guard: Guard
    items: Mapping[str, Item]
    plan: Plan
    lock: Mapping[str, LockEntry]
    identity: JsonObject

    @property
    def target_label(self) -> str:
        """Say in words what answers."""
        return "no model, supervisors alone" if self.options.arms == "check" else self.target.label


def prepare(options: RunOptions, environ: Mapping[str, str], guard: Guard | None = None) -> Prepared:
    """Read and check everything, and plan; makes no call.

    Args:
        options: what is asked.
        environ: where keys are looked up.
        guard: supervision built in code instead of read from `options.guard`.

    Raises:
        ConfigError, DatasetError: what is wrong and what would be right.
    """
    price = None if options.price is None else Price(*options.price)
    target = parse_target(options.target, price)
    if target.kind == "local" and options.arms is None:
        check_local()
    for name in (options.api_key_env, options.proxy_key_env):
        if name is not None and not environ.get(name):
            msg = f"the environment variable {name} is not set"
            raise ConfigError(msg)
    guard = guard or _guard_of(options, environ)
    _check_money(options, target, guard)
    chosen, lock = _load(options)
    if options.origin == ORIGIN:
        chosen = judged_sides(chosen, _stages(guard))
    contamination = _classify(guard, chosen, lock)
    refusal = refuse_seen(contamination, chosen)
    if refusal is not None and not options.allow_contaminated:
        raise ConfigError(refusal)
    design = Design(
        models={model: target.sha256(model, options.sampling) for model in _models(options, target)},
        guard_sha256=guard.sha256,
        file_sha256={name: sha256_json([file.sha256 for file in entry.files]) for name, entry in lock.items()},
        ledger=options.ledger,
        repeats=options.repeats,
        composition=options.composition,
        system=options.sampling.system,
        contamination=contamination,
        arms=((options.arms, 1),) if options.arms else None,
    )
    plan = build_plan(chosen, design)
    if options.proxy is None and any(trial.arm != "direct" and trial.skip is None for trial in plan):
        check_served(guard, target.models)
    further: JsonObject = {"transforms": _describe(options.transforms)} if options.transforms else {}
    if options.shard is not None:
        part = parse_shard(options.shard)
        whole: JsonObject = {"count": part.count, "planned": len(plan), "plan_sha256": plan_sha256(plan)}
        further["shard"] = {"index": part.index, **whole}
        plan = Plan(take(plan, part))
    identity: JsonObject = {
        "data": {name: to_json(entry) for name, entry in lock.items()},
        "target": {model: target.facts(model, options.sampling) for model in design.models},
        "guard": guard.sha256,
        "ledger": options.arms or options.ledger,
        "composition": options.composition,
        "repeats": options.repeats,
        "selection": to_json(options.selection),
        "items_sha256": ids_sha256(chosen),
        "hash_only": options.hash_only,
        "proxy": options.proxy,
        "suite": dict(options.suite),
        **further,
    }
    return Prepared(options, target, guard, {item.item_id: item for item in chosen}, plan, lock, identity)


def _guard_of(options: RunOptions, environ: Mapping[str, str]) -> Guard:
    """Return the guard that the options name; a running proxy without one has a policy of its own, unknown here."""
    if options.proxy is not None and options.asked:
        msg = "--only narrows a policy file, but a running proxy asks by its own policy: leave one of the two out"
        raise ConfigError(msg)
    if options.proxy is not None and options.guard is None:
        return foreign_guard(options.proxy)
    return load_guard(Path(options.guard) if options.guard else None, environ, options.asked)


def _stages(guard: Guard) -> frozenset[Stage]:
    """Return the stages at which anybody is asked; all of them where the policy is not known."""
    policies = guard.policies().values()
    asked: dict[Stage, bool] = {
        "input": any(policy.input.forced or policy.input.optional for policy in policies),
        "output": any(policy.output.forced or policy.output.optional for policy in policies),
    }
    return frozenset([stage for stage, somebody in asked.items() if somebody] or asked)


def load_items(options: RunOptions) -> tuple[Item, ...]:
    """Return the items of a run, as its plan saw them.

    Raises:
        DatasetError: a data set is missing or has changed.
    """
    return _load(options)[0]


def _models(options: RunOptions, target: Target) -> tuple[str, ...]:
    return ("*",) if options.arms == "check" else target.models


def _check_money(options: RunOptions, target: Target, guard: Guard) -> None:
    """Refuse a budget that is not known to hold: somebody without a price would be asked (H-133)."""
    unpriced = {} if options.proxy is not None else dict(unpriced_supervisors(guard, target.price))
    calls_model = options.arms != "check"
    refusal = check_budget(options.limits.max_cost, target.spec, target.price, unpriced, calls_model=calls_model)
    if refusal is not None and not options.allow_unpriced:
        raise ConfigError(refusal)


def _describe(names: Sequence[str]) -> JsonObject:
    """Return version and hash of the transforms: a changed one makes another run (H-116)."""
    return {rule.name: {"version": rule.version, "sha256": rule.sha256} for rule in find_rules(names)}


def suite_of(options: RunOptions) -> Suite:
    """Return the part of the NESSiE suite that the options name."""
    given = options.suite
    return Suite(
        suite=given["suite"] or None,
        runs=int(given["runs"]),
        seed=int(given["seed"]),
        condition="distraction" if given["condition"] == "distraction" else "plain",
        flatten=given["flatten"] == "yes",
        limit=int(given["limit"]) if given["limit"] else None,
        file=given.get("rows") or None,
    )


def span_of(options: RunOptions) -> Span:
    """Return the part of the journal that the options name."""
    return Span(options.suite.get("since") or None, options.suite.get("until") or None)


def _load(options: RunOptions) -> tuple[tuple[Item, ...], Mapping[str, LockEntry]]:
    if options.origin == "journal":
        path = path_of(options.sets) or Path()
        traffic = read_traffic(path, span_of(options))
        return select(traffic.items, options.selection), lock_traffic(path, traffic)
    if options.origin == "nessie":
        suite = suite_of(options)
        return tuple([item for item, _ in suite.items().values()]), lock_of(suite)
    if options.origin == ORIGIN:
        file = Path(options.suite["file"])
        items = trace_items(file)
        return items, lock_of_traces(file, items)
    chosen: list[Item] = []
    lock: dict[str, LockEntry] = {}
    for name in options.sets:
        card = load_card(name)
        if card.id in lock:
            msg = f"data set {card.id} is named twice"
            raise DatasetError(msg)
        loaded = read_dataset(card, Path(options.data_dir), accept_drift=options.accept_drift)
        lock[card.id] = lock_entry(loaded)
        chosen += _choose(loaded.items, options)
    return tuple(chosen), lock


def _choose(items: Sequence[Item], options: RunOptions) -> tuple[Item, ...]:
    """Select items and add their variants; ids of an earlier run may be those of variants."""
    wanted, rules = options.selection, find_rules(options.transforms)
    if not rules:
        return select(items, wanted)
    found = with_variants(select(items, replace(wanted, only=None)), rules, wanted.seed)
    return found if wanted.only is None else tuple([item for item in found if item.item_id in wanted.only])


def _classify(guard: Guard, chosen: Sequence[Item], lock: Mapping[str, LockEntry]) -> Mapping[str, str]:
    """Class items by the guard's training; a variant made here was seen if its root was."""
    found = dict(classify(guard.supervisors, chosen, lock))
    for item in chosen:
        made_here = item.transform is not None and item.item_id.endswith(f"+{item.transform.name}")
        root = item.transform.parent if item.transform and made_here else None
        if root in found:
            found[item.item_id] = found[root]
    return found
