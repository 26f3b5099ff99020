"""`guardrail-proxy explain`: which policies match a request and who would judge what; calls nothing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from proxy.app import FAMILIES
from proxy.arguments import MadeUp, Subparsers, say_errors, take_config
from proxy.check import explain_plan
from proxy.config import Config, config_version, load_config
from proxy.keys import Caller
from proxy.passes import holdback_of
from proxy.plan import Planner, StagePlan
from proxy.prepare import Catalogue, arrive, new_id, prepare
from proxy.wire.adapter import Adapter
from proxy.wire.body import parse_body
from proxy.wire.chat import CHAT
from proxy.wire.errors import RequestError
from proxy.wire.moderations import MODERATIONS
from supervisors.ask import stream_capability
from supervisors.errors import ConfigError
from supervisors.nesting import walk

_ROUTES: Final[Mapping[str, Adapter]] = {one.route: one for one in FAMILIES if one is not MODERATIONS}
"""Moderations are not here: their body names a policy, and that is all who judges it."""
_ACTIONS: Final[Mapping[str, str]] = {"block": "block", "redact": "replace what it found", "log": "record it, and pass"}


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "explain",
        help="show what would happen to a request, without doing it",
        description="show what would happen to a request, without doing it",
    )
    parser.add_argument(
        "--request",
        type=Path,
        required=True,
        metavar="BODY",
        help="file with the request's JSON body; - reads standard input",
    )
    parser.add_argument("--route", choices=list(_ROUTES), default=CHAT.route, help="where it would be sent")
    parser.add_argument(
        "--key", metavar="NAME", help="take the part of the caller with this key, by its configured name"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    take_config(parser, run)


def run(args: argparse.Namespace) -> int:
    """Say what would happen; returns 0, or 2 with one line when the config or the request is wrong."""
    try:
        config = load_config(args.config, MadeUp())
        shown = explain(config, _read(args.request), args.key, _ROUTES[args.route])
    except OSError as error:
        sys.stderr.write(f"error: cannot read {args.request}: {error.strerror or error}\n")
        return 2
    except ConfigError as error:
        say_errors(error, args.config)
        return 2
    except RequestError as error:
        sys.stderr.write(f"error: the proxy would answer {error.status} {error.code}: {error.message}\n")
        return 2
    text = json.dumps(shown, indent=2, ensure_ascii=False) if args.json else "\n".join(describe(shown))
    sys.stdout.write(f"{text}\n")
    return 0


def _read(request: Path) -> bytes:
    return sys.stdin.buffer.read() if request == Path("-") else request.read_bytes()


def explain(config: Config, raw: bytes, key: str | None = None, adapter: Adapter = CHAT) -> dict[str, Any]:
    """Return policies, supervisors with their merged rules, and the segments of a request (lengths, no text).

    Raises:
        ConfigError: the key is not configured.
        RequestError: what the proxy would answer to this request.
    """
    if key is not None and key not in config.keys:
        msg = f"unknown key {key!r}; known: {', '.join(sorted(config.keys)) or 'none'}"
        raise ConfigError(msg, "keys")
    caller = Caller(key, None, config.keys[key] if key is not None else None)
    planner = Planner(config.policies, config.supervisors)
    version = config_version(config)
    catalogue = Catalogue(config.served_models(), planner, config.limits, config.tasks, version)
    made = new_id()
    call = prepare(arrive(adapter, caller, {}, made, made), parse_body(raw, config.limits.max_json_depth), catalogue)
    segments = adapter.request_segments(call.body)
    return {
        "route": adapter.route,
        "key": key,
        "keys": sorted(config.keys),
        "model": call.model,
        "upstream": call.upstream,
        "policies": list(call.plan.policies),
        "version": version,
        "supervisors": [{**row, "scopes": _scopes(config, row["supervisor"])} for row in explain_plan(call)],
        "streams": _explain_stream(call.plan.output),
        "segments": [
            {
                "path": segment.path,
                "role": segment.role,
                "kind": segment.kind,
                "scope": segment.scope,
                "turn": segment.turn,
                "chars": len(segment.text),
            }
            for segment in segments
        ],
    }


def _scopes(config: Config, name: str) -> list[str]:
    """Return the scopes that a supervisor or a member of it judges, none when it does not say."""
    parts = list(walk(name, config.supervisors[name])) if name in config.supervisors else []
    return sorted({str(scope) for _, part in parts for scope in getattr(part, "scopes", ())})


def describe(shown: Mapping[str, Any]) -> Iterator[str]:
    """Yield the same in words."""
    if shown["keys"] and shown["key"] is None:
        known = ", ".join(shown["keys"])
        yield f"A caller without a key gets 401. Below is what holds for every key; --key NAME takes one of: {known}.\n"
    yield f"POST {shown['route']} for the model {shown['model']} goes to the upstream {shown['upstream']}."
    yield f"Policies that hold: {', '.join(shown['policies']) or 'none, so everything passes unjudged'}."
    for stage, title in (("input", "Before the model, the request"), ("output", "Behind the model, the reply")):
        rows = [row for row in shown["supervisors"] if row["stage"] == stage]
        yield f"\n{title} is judged by {'nobody.' if not rows else ''}".rstrip()
        for row in rows:
            yield from _describe_row(row)
    streams = shown["streams"]
    if streams["held_back_chars"]:
        yield f"\nA streamed reply leaves as it is covered (stream mode {streams['mode']}). Held back at any time:"
        for name, held in streams["held_back_chars"].items():
            kept = "the whole reply, until its end" if held == "all" else f"the last {held} characters"
            yield f"  for {name}: {kept}"
    yield "\nTexts of the request (only their lengths are shown):"
    for segment in shown["segments"]:
        where = f"{segment['scope']} scope, {segment['role']}, {segment['kind']}"
        yield f"  {segment['path']}: {segment['chars']} characters; {where}"


def _describe_row(row: Mapping[str, Any]) -> Iterator[str]:
    looks = f"; looks at {', '.join(row['scopes'])}" if row["scopes"] and row["stage"] == "input" else ""
    yield f"  {row['supervisor']} ({', '.join(row['policies'])}){looks}"
    if row["mode"] == "shadow":
        yield "    afterwards, in the shadow: its verdict is recorded, and nothing follows"
        return
    when = "the model answers meanwhile" if row["mode"] == "parallel" else "everything waits for its verdict"
    unknown = dict(row["on_unknown"])
    default = unknown.pop("default")
    yield f"    {when}, at most {row['timeout_s']:g} s"
    yield f"    unsafe: {_ACTIONS[row['on_unsafe']]}"
    for scope, action in row["on_scope"].items():
        if action != row["on_unsafe"] and looks and scope in row["scopes"]:
            yield f"    unsafe, found in {scope}: {_ACTIONS[action]}"
    yield f"    unknown: {_ACTIONS[default]}"
    for cause, action in unknown.items():
        yield f"    unknown, because of {cause}: {_ACTIONS[action]}"


def _explain_stream(plan: StagePlan) -> dict[str, Any]:
    """Return how a streamed reply is held: the last so many characters of each supervisor, or `all` of the text."""
    whole = plan.stream.mode == "hold"
    held = {
        name: "all" if whole or stream_capability(supervisor) == "final" else holdback_of(supervisor)
        for name, supervisor in plan.blocking
    }
    return {"mode": plan.stream.mode, "window_chars": plan.stream.window_chars, "held_back_chars": held}
