"""Count stored records again and compare with what `/metrics` shows (operations §4.3, point 5).

Deliberately not the code that counts in the proxy: this one reads the stored JSON, so that a counter that was
forgotten or increased twice there shows here. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from proxy.record import SHADOW_DROPPED
from proxy.store.rules import Labels

Series = tuple[str, tuple[tuple[str, str], ...]]
"""Sample name and its labels, sorted."""

FAMILIES = (
    "guardrail_exchanges_total",
    "guardrail_verdicts_total",
    "guardrail_decisions_total",
    "guardrail_judge_parse_failures_total",
    "guardrail_judge_repairs_total",
    "guardrail_vote_outcomes_total",
    "guardrail_shadow_dropped_total",
    "guardrail_coherence_total",
    "guardrail_tokens_total",
    "guardrail_unguarded_requests_total",
    "guardrail_late_spans_total",
    "proxy_client_cancelled_total",
)
"""Every family marked J; `guardrail_records_total` says how far they reach."""

RECORDS: Series = ("guardrail_records_total", ())

ACCEPTED: Series = ("guardrail_records_accepted_total", ())
LOST: Series = ("guardrail_records_lost_total", ())
FAILING: Series = ("guardrail_store_failing", ())


def find_unwritten(samples: Mapping[Series, float]) -> Iterator[str]:
    """Yield what the process took on and the journal does not have: given up, or waiting while nothing is written.

    What waits for the next batch of a journal that works is no difference.
    """
    lost = samples.get(LOST, 0)
    waiting = samples.get(ACCEPTED, 0) - samples.get(RECORDS, 0) - lost
    if lost:
        yield f"{lost:g} records were given up and are not in the journal"
    if waiting > 0 and samples.get(FAILING, 0):
        yield f"{waiting:g} records wait and the journal takes no writes: their exchanges may have been answered"


def _declared(value: str, names: frozenset[str]) -> str:
    return value if value in names else "other"


def _series(name: str, labels: Mapping[str, str]) -> Series:
    return name, tuple(sorted(labels.items()))


def recount(body: Mapping[str, Any], labels: Labels, totals: Counter[Series]) -> None:
    """Add one stored record to the totals.

    Args:
        body: the record as stored.
        labels: names declared by the config version of the record.
        totals: value by series; increased.
    """
    model = _declared(body["model"], labels.models)
    totals[RECORDS] += 1
    totals[
        _series("guardrail_exchanges_total", {"kind": body["kind"], "model": model, "outcome": body["outcome"]})
    ] += 1
    for row in body["verdicts"]:
        _recount_verdict(row, _declared(row["supervisor"], labels.supervisors), totals)
    for row in body["decisions"]:
        policy, reason = _declared(row["policy"], labels.policies), row["reason"] or "none"
        where = {"policy": policy, "stage": row["stage"], "mode": row["mode"]}
        totals[_series("guardrail_decisions_total", {**where, "action": row["action"], "reason": reason})] += 1
    late = max([row["late_spans"] for row in body["decisions"]], default=0)
    if late and not any(row["late_spans"] for row in body["verdicts"]):
        totals[_series("guardrail_late_spans_total", {"supervisor": "other"})] += late
    _recount_rest(body, labels, model, totals)


def _recount_verdict(row: Mapping[str, Any], name: str, totals: Counter[Series]) -> None:
    label, cause, mode = row["label"], row["cause"] or "none", row["mode"]
    where = {"supervisor": name, "stage": row["stage"], "mode": mode}
    totals[_series("guardrail_verdicts_total", {**where, "label": label, "cause": cause})] += 1
    if cause == "unparsable":
        totals[_series("guardrail_judge_parse_failures_total", {"supervisor": name})] += 1
    if row.get("repaired") is True:
        totals[_series("guardrail_judge_repairs_total", {"supervisor": name})] += 1
    if cause == "skipped" and mode == "shadow" and row["detail"] == SHADOW_DROPPED:
        totals[_series("guardrail_shadow_dropped_total", {"supervisor": name})] += 1
    if row["late_spans"]:
        totals[_series("guardrail_late_spans_total", {"supervisor": name})] += row["late_spans"]
    tokens: Mapping[str, int] = row["tokens"] or {}
    for direction, count in tokens.items():
        totals[_series("guardrail_tokens_total", {"supervisor": name, "direction": direction})] += count
    if row["members"] and row["detail"] in ("tie", "quorum_miss", "pivotal"):
        totals[_series("guardrail_vote_outcomes_total", {"panel": name, "outcome": row["detail"]})] += 1
    elif row["members"] and label != "unknown":
        totals[_series("guardrail_vote_outcomes_total", {"panel": name, "outcome": "decided"})] += 1


def _recount_rest(body: Mapping[str, Any], labels: Labels, model: str, totals: Counter[Series]) -> None:
    usage: Mapping[str, Any] = body["usage"] or {}
    for direction, names in (
        ("input", ("prompt_tokens", "input_tokens")),
        ("output", ("completion_tokens", "output_tokens")),
    ):
        counts = [usage[name] for name in names if _is_count(usage.get(name))]
        if counts:
            totals[_series("guardrail_tokens_total", {"supervisor": "upstream", "direction": direction})] += counts[0]
    if body["coherence"] is not None:
        state = body["coherence"].get("state")
        known = state if state in ("coherent", "incoherent", "unknown") else "unknown"
        totals[_series("guardrail_coherence_total", {"model": model, "state": known})] += 1
    if body["client"]["cancelled_phase"] is not None:
        totals[_series("proxy_client_cancelled_total", {"phase": body["client"]["cancelled_phase"]})] += 1
    if body["kind"] == "unguarded":
        totals[_series("guardrail_unguarded_requests_total", {"route": _declared(body["route"], labels.routes)})] += 1


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def compare(totals: Mapping[Series, int], shown: Mapping[Series, float]) -> Iterator[str]:
    """Yield one sentence for every J series whose counter differs from the count over the records."""
    names = {series for series in (*totals, *shown) if series[0] in FAMILIES}
    for series in sorted(names):
        counted, exposed = totals.get(series, 0), shown.get(series, 0)
        if counted != exposed:
            labels = ",".join([f'{name}="{value}"' for name, value in series[1]])
            yield f"{series[0]}{{{labels}}} shows {exposed:g}, the journal has {counted}"
