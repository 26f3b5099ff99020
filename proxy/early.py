"""The record of a request that ended before anybody judged it: of an authenticated caller, and of its route's kind."""

from __future__ import annotations

import time

from proxy.prepare import Arrival, read_task
from proxy.record import ClientEnd, Outcome, Record, RecordKind
from proxy.runtime import Runtime
from proxy.wire.errors import RequestError
from proxy.wire.moderations import MODERATIONS
from supervisors.errors import StoreError


def record_refused(
    runtime: Runtime, arrival: Arrival, model: str, error: RequestError, kind: RecordKind | None = None
) -> None:
    """Record a request that is answered with an error, which then carries the id of the record (O-13, wire §3.2).

    Args:
        runtime: what the request is served with.
        arrival: the request.
        model: that the caller asks for; nothing while it is not known.
        error: its answer.
        kind: what the record says it is; by default what the route serves.
    """
    outcome: Outcome = "client_error" if error.status < 500 else "unavailable"
    try:
        runtime.sinks.refuse(_early(runtime, arrival, model, outcome, ClientEnd(error.status), kind))
    except StoreError:  # the answer is an error: nobody was answered without a record
        return
    error.headers = {**error.headers, "x-guardrail-id": arrival.id}


def record_gone(runtime: Runtime, arrival: Arrival, model: str, kind: RecordKind | None = None) -> None:
    """Record a request whose caller left while its body was arriving; arguments as for `record_refused`.

    Nobody is there to be refused: a record that has no place is counted as lost.
    """
    end = ClientEnd(499, cancelled_phase="before_upstream")
    runtime.sinks.keep(_early(runtime, arrival, model, "cancelled", end, kind), reserved=False)


def _early(
    runtime: Runtime, arrival: Arrival, model: str, outcome: Outcome, client: ClientEnd, kind: RecordKind | None
) -> Record:
    """Return the record of it, without verdicts."""
    return Record(
        id=arrival.id,
        request_id=arrival.request_id,
        started=arrival.started,
        seconds=max(0.0, time.time() - arrival.started),
        kind=kind or ("moderation" if arrival.adapter is MODERATIONS else "exchange"),
        route=arrival.adapter.route,
        stream=False,
        task=read_task(arrival.headers, runtime.catalogue.tasks),
        key_id=arrival.caller.key_id,
        model=model,
        model_served=None,
        upstream=None,
        policies=(),
        version=runtime.version,
        outcome=outcome,
        client=client,
    )
