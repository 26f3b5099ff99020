"""Everything that is not hot, on FastAPI: models, guardrails, checks, decisions, health, metrics."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from functools import partial
from importlib.metadata import version as package_version
from typing import Annotated, Any, Final

import orjson
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from proxy.asgi import AsgiResponder, Message, read_body
from proxy.check import Checking
from proxy.console import CONTENT_TYPES, SECURITY, read_file
from proxy.early import record_gone, record_refused
from proxy.gateway import Gateway
from proxy.health import degradation, readiness, show_states
from proxy.keys import Caller, read_key
from proxy.limits import SLOW_BYTES
from proxy.metrics import render_families
from proxy.misrouted import CHECK_ROUTE, SERVED
from proxy.plan import Request as PlanRequest
from proxy.policy import Action
from proxy.ports import ClientGone
from proxy.prepare import arrive, new_id
from proxy.runtime import Runtime
from proxy.store.protocol import Filters
from proxy.wire.body import parse_body
from proxy.wire.chat import CHAT
from proxy.wire.errors import RequestError, internal, to_reply
from proxy.wire.forms import model_of
from proxy.workers.merging import Snapshot, merge
from supervisors.errors import QueryError, StoreError
from supervisors.types import Label


def create_admin(gateway: Gateway) -> FastAPI:
    """Return the FastAPI application."""
    app = FastAPI(
        title="guardrail-proxy",
        version=package_version("guardrail-proxy"),
        redirect_slashes=False,
        docs_url=None,  # its page and that of redoc load scripts from the network
        redoc_url=None,
    )
    app.add_exception_handler(RequestError, _on_request_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(Exception, _on_bug)
    _add_health(app, gateway)
    _add_models(app, gateway)
    _add_guardrails(app, gateway)
    _add_decisions(app, gateway)
    _add_console(app)
    return app


def _json(value: object, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")


async def _on_request_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)  # noqa: S101 - registered for this type only
    reply = to_reply(error)
    return Response(reply.body, reply.status, dict(reply.headers), media_type="application/json")


_SERVED: Final = ", ".join([*SERVED, CHECK_ROUTE])


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this type only
    if error.status_code == 405:
        allow = {name: value.replace("GET", "GET, HEAD") for name, value in (error.headers or {}).items()}
        refused = RequestError(405, "method_not_allowed", "This route does not know that method.", headers=allow)
    else:
        refused = RequestError(404, "unknown_route", f"There is no such route; served are {_SERVED}.")
    return await _on_request_error(request, refused)


async def _on_bug(request: Request, error: Exception) -> Response:
    return await _on_request_error(request, internal())


async def _on_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this type only
    first: dict[str, Any] = dict(error.errors()[0])
    where = ".".join(str(part) for part in first["loc"][1:])
    message = f"{where}: {first['msg']}."
    if first["type"] == "extra_forbidden":
        message = f"Unknown filter {where[:64]!r}; known are: {', '.join(FILTERS)}."
    refused = RequestError(400, "invalid_value", message, param=where)
    return await _on_request_error(request, refused)


def _caller(gateway: Gateway, request: Request) -> Caller:
    return gateway.runtime.keyring.authenticate(_presented(request))


def _presented(request: Request) -> str | None:
    return read_key(request.headers.get("authorization"), request.headers.get("x-api-key"))


def _admin(gateway: Gateway, request: Request) -> None:
    if not _caller(gateway, request).admin:
        raise RequestError(403, "route_not_allowed", "Decisions are for admin keys only.")


def _add_health(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/livez")
    async def livez() -> Response:
        """Say that the event loop answers."""
        return _json({"status": "ok"})

    @app.get("/readyz")
    async def readyz() -> Response:
        """Say whether requests are served, and what is missing or degraded."""
        missing = readiness(gateway)
        degraded = degradation(gateway)
        status = 503 if missing else 200
        return _json(
            {"status": "ready" if not missing else "not ready", "missing": missing, "degraded": degraded}, status
        )

    @app.get("/health")
    async def health() -> Response:
        """Show versions; no secrets, no upstream addresses."""
        config_version = gateway.runtime.version
        workers = [(os.getpid(), config_version)]
        if gateway.peers is not None:
            workers = [(one.pid, one.config_version) for one in await gateway.peers.gather() if one.live]
        return _json(
            {
                "status": "ok" if gateway.ready else "draining",
                "version": package_version("guardrail-proxy"),
                "config_version": config_version,
                "boot": gateway.journal.boot,
                "workers": [{"pid": pid, "config_version": version} for pid, version in workers],
            }
        )

    @app.get("/metrics")
    async def metrics() -> Response:
        """Expose the metrics in Prometheus text format."""
        text = await _expose(gateway)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")


async def _expose(gateway: Gateway) -> bytes:
    if gateway.peers is not None:
        all_workers = await gateway.peers.gather()
        boots = {one.boot: one.records for one in all_workers}
        return await asyncio.to_thread(lambda: render_families(merge(all_workers), boots))
    await _catch_up(gateway)
    return await asyncio.to_thread(gateway.metrics.render)


async def _catch_up(gateway: Gateway) -> None:
    show_states(gateway)
    with suppress(StoreError):  # a failing journal must not hide the metrics that say so
        await gateway.journal.flush(1.0)


async def take_snapshot(gateway: Gateway) -> Snapshot:
    """Return what this process shows, for the other workers."""
    if gateway.ready:
        await _catch_up(gateway)
    families = await asyncio.to_thread(gateway.metrics.families)
    counted = [one.value for family in families for one in family.samples if one.name == "guardrail_records_total"]
    version = gateway.metrics.version
    return Snapshot(gateway.journal.boot, os.getpid(), version, int(counted[0]), families)


def _add_models(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/v1/models")
    async def list_models(request: Request) -> Response:
        """List the models this key may use, from the config only."""
        caller = _caller(gateway, request)
        served = gateway.runtime.catalogue.models
        data = [_model(name, item.upstream) for name, item in served.items() if name != "*" and caller.may_use(name)]
        return _json({"object": "list", "data": data})

    @app.get("/v1/models/{name:path}")
    async def get_model(request: Request, name: str) -> Response:
        """Return one model."""
        caller = _caller(gateway, request)
        item = gateway.runtime.catalogue.models.get(name)
        if item is None or not caller.may_use(name):
            raise RequestError(404, "model_not_found", f"The model {name[:100]!r} is not served here.", param="model")
        return _json(_model(name, item.upstream))


_STARTED = int(time.time())


def _model(name: str, upstream: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": _STARTED, "owned_by": upstream}


def _add_guardrails(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/v1/guardrails")
    async def list_guardrails(request: Request, model: Annotated[str, Query(max_length=256)] = "*") -> Response:
        """List the supervisors of the policies that match this key, and the model if one is named, on the chat route.

        `optional` ones may be added per request.
        """
        caller = _caller(gateway, request)
        if model != "*":
            caller.allow_model(model)
        asked = PlanRequest(model, caller.name, CHAT.route, caller.tags)
        rows = gateway.runtime.catalogue.planner.addable(asked)
        data = [{"name": name, "stages": list(stages), "optional": optional} for name, stages, optional in rows]
        return _json({"object": "list", "data": data})

    @app.post(CHECK_ROUTE)
    async def check(request: Request) -> Response:
        """Judge without generating."""
        runtime = gateway.enter()
        try:
            return await _check(runtime, request)
        finally:
            gateway.leave(runtime)


async def _check(runtime: Runtime, request: Request) -> Response:
    caller = runtime.keyring.authenticate(_presented(request))
    arrival = arrive(CHAT, caller, dict(request.headers), new_id(), request.scope["request_id"])
    model, judging = "", False
    try:
        caller.allow_check()
        limits = runtime.config.limits
        with caller.admitted():
            raw = await read_body(
                request.receive, arrival.headers, limits.max_body_bytes, runtime.pipeline.attend_alone
            )
            slow = len(raw) > SLOW_BYTES  # in a thread, so that the loop goes on
            parse = partial(parse_body, raw, limits.max_json_depth)
            body = await asyncio.to_thread(parse) if slow else parse()
            model = model_of(body)
            read = partial(Checking.read, runtime, arrival, body)
            checking = await asyncio.to_thread(read) if slow else read()
            judging = True
            reply = _json(await checking.run(AsgiResponder(request.receive, _send_nothing)))
    except RequestError as error:
        if not judging:
            record_refused(runtime, arrival, model, error, "check")
        raise
    except ClientGone:
        if not judging:  # while its body was arriving
            record_gone(runtime, arrival, model, "check")
        return Response(status_code=499)
    if not checking.wanted.dry_run:  # that one has no record
        reply.headers["x-guardrail-id"] = arrival.id
    return reply


async def _send_nothing(message: Message) -> None:
    """Send nothing: the framework sends what a check answers."""


def _add_console(app: FastAPI) -> None:
    @app.get("/console", include_in_schema=False)
    async def open_console() -> Response:
        """Send the browser to the console's folder, so that its relative addresses work behind any prefix."""
        return Response(status_code=307, headers={"location": "console/index.html"})

    @app.get("/console/{name}", include_in_schema=False)
    async def console_file(name: str) -> Response:
        """Serve a file of the console; the data it shows needs an admin key of its own."""
        content = read_file(name)
        if content is None:
            raise RequestError(404, "unknown_route", "The console has no such file.")
        return Response(content, media_type=CONTENT_TYPES[name], headers=dict(SECURITY))

    @app.get("/console/{slashes:path}", include_in_schema=False)
    async def open_folder(slashes: str) -> Response:
        """Do as the first for an address that ends in slashes; each one after the first is one level further down."""
        if slashes.strip("/"):
            raise RequestError(404, "unknown_route", "The console has no such file.")
        return Response(status_code=307, headers={"location": "../" * len(slashes) + "index.html"})


class DecisionQuery(BaseModel):
    """Filters of `/v1/decisions`; times are seconds since the epoch."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    since: float | None = Field(default=None, alias="from")
    until: float | None = Field(default=None, alias="to")
    label: Label | None = None
    decision: Action | None = None
    supervisor: str | None = None
    model: str | None = None
    limit: int = Field(default=100, ge=1, le=1000)
    after: str | None = None


FILTERS: Final = tuple([field.alias or name for name, field in DecisionQuery.model_fields.items()])
"""Names of the filters as they are written in a query."""


def _add_decisions(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/v1/decisions")
    async def find_decisions(request: Request, query: Annotated[DecisionQuery, Query()]) -> Response:
        """Return matching records, newest first (admin)."""
        _admin(gateway, request)
        filters = Filters(**query.model_dump())
        try:
            found = await gateway.journal.find(filters)
        except QueryError as error:
            raise RequestError(400, "invalid_value", f"The journal cannot answer: {error}.") from error
        except StoreError as error:  # it may say where the journal is
            raise RequestError(503, "record_unavailable", "The journal cannot answer now.") from error
        return _json({"object": "list", "data": list(found)})

    @app.get("/v1/decisions/{key}")
    async def get_decision(request: Request, key: str) -> Response:
        """Return the record of an id, or those of a request id, newest first (admin).

        `policy.version` is the SHA-256 of the resolved config, `config` that of the rules archived for `verify`.
        """
        _admin(gateway, request)
        try:
            found = await gateway.journal.get(key)
        except StoreError as error:
            raise RequestError(503, "record_unavailable", "The journal cannot answer now.") from error
        if not found:
            raise RequestError(404, "decision_not_found", "No record has this id or request id.")
        if len(found) == 1:
            return _json(found[0])
        return _json({"object": "list", "data": list(found)})
