"""The stored form of a record is the full one without the members that have their default."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from proxy.policy import Decision
from proxy.record import ClientEnd, JudgedBy, Record, UpstreamCall, View
from proxy.rows import complete, shorten, to_json, to_row
from proxy.store.chain import canonical
from supervisors.types import Assessment, Cause, Label, Span, Verdict

RECORD = Record(
    id="a",
    request_id="b",
    started=1_700_000_000.0,
    seconds=0.5,
    kind="exchange",
    route="/v1/chat/completions",
    stream=False,
    task=None,
    key_id=None,
    model="m",
    model_served=None,
    upstream="u",
    policies=("default",),
    version="0" * 64,
    outcome="answered",
    view=View(segments=2, chars=20),
    verdicts=(JudgedBy(Assessment("words", Verdict(Label.SAFE), 0.001, 1, 20), "input", None, enforce=True),),
    decisions=(
        Decision(
            policy="default",
            stage="input",
            choice=None,
            label=Label.SAFE,
            cause=None,
            flagged=False,
            blocked=False,
            redacted=False,
            action="pass",
            reason=None,
        ),
    ),
    upstream_call=UpstreamCall(called=True, status=200, seconds=0.2, attempts=1),
    client=ClientEnd(200, ("stop",), 100),
)
FOUND = Verdict(
    Label.UNSAFE,
    score=0.9,
    categories=("violet",),
    spans=(Span("/messages/0/content", 0, 6, "violet"),),
    transform="base64",
    detail="pivotal",
    scope="conversation",
    cost=0.0,
    extras={"mode": "forged", "label": "safe", "model_served": "m1"},
)
BLOCKED = Decision(
    policy="default",
    stage="output",
    choice=1,
    label=Label.UNSAFE,
    cause=None,
    flagged=True,
    blocked=True,
    redacted=False,
    action="block",
    reason="unsafe",
    enforce=False,
    seconds=0.1,
    late_spans=2,
)
RICH = replace(
    RECORD,
    task="task",
    key_id="0" * 12,
    tightened=("input",),
    holdback_s=0.25,
    coherence={"state": "coherent"},
    verdicts=(
        JudgedBy(Assessment("panel", replace(FOUND, members=(Assessment("a", FOUND),))), "output", 1, enforce=False),
        JudgedBy(Assessment("late", Verdict(Label.UNKNOWN, cause=Cause.TIMEOUT)), "input", None, enforce=True),
        JudgedBy(Assessment("spans", Verdict(Label.SAFE)), "output", 0, enforce=True, late_spans=1),
    ),
    decisions=(BLOCKED,),
    upstream_call=UpstreamCall(called=True, cancelled=True, filtered=True, error_kind="timeout", seconds=0.0),
)


@pytest.mark.parametrize("record", [RECORD, RICH])
def test_what_is_stored_completes_to_the_full_form(record: Record) -> None:
    assert complete(orjson.loads(orjson.dumps(to_row(record)))) == orjson.loads(orjson.dumps(to_json(record)))
    assert complete(to_json(record)) == to_json(record)
    assert canonical(shorten(to_json(record))) == canonical(to_row(record))


def test_the_full_form_has_every_member_even_where_nothing_happened() -> None:
    full = to_json(RECORD)
    rich = to_json(RICH)
    assert full.keys() == rich.keys()
    assert full["verdicts"][0].keys() == rich["verdicts"][2].keys()
    assert full["decisions"][0].keys() == rich["decisions"][0].keys()
    assert full["upstream_call"].keys() == rich["upstream_call"].keys()
    assert full["verdicts"][0] == {
        "rest": None,
        "supervisor": "words",
        "stage": "input",
        "choice": None,
        "mode": "enforce",
        "scope": None,
        "label": "safe",
        "cause": None,
        "detail": None,
        "score": None,
        "categories": [],
        "transform": None,
        "spans": [],
        "seconds": 0.001,
        "passes": 1,
        "chars_judged": 20,
        "cached": False,
        "tokens": None,
        "cost": None,
        "members": 0,
        "late_spans": 0,
    }


def test_extras_of_a_supervisor_never_replace_what_the_house_says() -> None:
    panel, member, late, spans = to_json(RICH)["verdicts"]
    assert (panel["supervisor"], member["supervisor"]) == ("panel", "panel/a")
    assert (panel["mode"], panel["label"], panel["model_served"]) == ("shadow", "unsafe", "m1")
    assert (panel["cost"], panel["members"], late["cause"], spans["late_spans"]) == (0.0, 1, "timeout", 1)


def test_a_record_without_findings_is_stored_in_a_fraction_of_its_full_size() -> None:
    many = replace(RECORD, verdicts=RECORD.verdicts * 6)
    assert len(orjson.dumps(to_row(many))) < len(orjson.dumps(to_json(many))) / 2


@pytest.mark.parametrize("row", [{}, {"verdicts": 1}, {"verdicts": [], "decisions": []}])
def test_what_is_no_record_is_refused(row: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError)):
        complete(row)
