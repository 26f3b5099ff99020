"""Response headers of judged routes (wire §3.2): read from the same results as the record, so they agree with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from proxy.call import Call, Progress
from proxy.policy import Action
from proxy.stages import StageResult
from supervisors.types import Cause, Label

Header = tuple[bytes, bytes]
JSON: Sequence[Header] = ((b"content-type", b"application/json"),)
EVENT_STREAM: Sequence[Header] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
Expose = Literal["full", "decision", "none"]

_ACTIONS: Sequence[Action] = ("pass", "flag", "redact", "block")
_DECISIONS: Mapping[Action, Header] = {action: (b"x-guardrail-decision", action.encode()) for action in _ACTIONS}
_SAFE, _SKIPPED = Label.SAFE, Cause.SKIPPED


def guardrail_headers(call: Call, progress: Progress, expose: Expose, overhead_s: float) -> list[Header]:
    """Return the `x-guardrail-*` headers; for a stream they speak of the input stage.

    Where nobody judged there is no decision in the record, and so none in the headers.

    Args:
        call: the exchange.
        progress: its results so far.
        expose: how much a caller may see; ``none`` leaves the id of the record alone.
        overhead_s: proxy time without upstream wait.
    """
    if expose == "none":
        return [(b"x-guardrail-id", call.id.encode())]
    results = [progress.input] if call.stream else [progress.input, *progress.outputs]
    headers: list[Header] = [(b"x-guardrail-id", call.id.encode())]
    if [made for result in results for made in result.decisions if made.enforce]:
        headers.append(_DECISIONS[strictest([result.action for result in results])])
    headers.append((b"x-guardrail-overhead-ms", b"%d" % round(overhead_s * 1000)))
    if expose == "full":
        headers.append(_verdict_header(verdict_word(results)))
        headers += _policy_headers(call.plan.shown, call.version)
        headers.append(_applied_header(applied(results)))
    return headers


def strictest(actions: Sequence[Action]) -> Action:
    """Return the strictest of the actions; there is at least one."""
    first = actions[0]
    return first if actions.count(first) == len(actions) else max(actions, key=_ACTIONS.index)


@lru_cache(64)
def _verdict_header(word: str) -> Header:
    return b"x-guardrail-verdict", word.encode()


@lru_cache(64)
def _applied_header(names: tuple[str, ...]) -> Header:
    return b"x-guardrail-applied", ",".join(names).encode("ascii", "replace")


@lru_cache(64)
def _policy_headers(policies: tuple[str, ...], version: str) -> tuple[Header, Header]:
    names = ",".join(policies).encode("ascii", "replace")
    return (b"x-guardrail-policy", names), (b"x-guardrail-policy-version", version[:12].encode())


def verdict_word(results: Sequence[StageResult]) -> str:
    """Return the worst label; unknown comes with its cause."""
    if not [result for result in results if result.label is not _SAFE]:
        return "safe"
    ran = [result for result in results if result.cause is not Cause.SKIPPED]
    labels = {result.label for result in ran}
    if Label.UNSAFE in labels:
        return "unsafe"
    causes = [result.cause for result in ran if result.cause is not None]
    if causes:
        return f"unknown; cause={min(causes, key=list(Cause).index).value}"
    return "safe" if ran else "unknown; cause=skipped"


def applied(results: Iterable[StageResult]) -> tuple[str, ...]:
    """Return the supervisors that really ran, from their own verdicts."""
    names = [
        found.supervisor for result in results for found in result.assessments if found.verdict.cause is not _SKIPPED
    ]
    return tuple(dict.fromkeys(names))
