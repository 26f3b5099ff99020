"""`guardrail-proxy explain`: which policies match a request and who would judge what; calls nothing."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from proxy.check import explain_plan
from proxy.commands.verify import Subparsers
from proxy.config import Config, config_version, load_config
from proxy.keys import Caller
from proxy.locating import name_file
from proxy.passes import holdback_of
from proxy.plan import Planner, StagePlan
from proxy.prepare import Catalogue, arrive, new_id, prepare
from proxy.wire.body import parse_body
from proxy.wire.chat import CHAT
from proxy.wire.errors import RequestError
from supervisors.ask import stream_capability
from supervisors.errors import ConfigError


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "explain",
        help="show what would happen to a request, without doing it",
        description="show what would happen to a request, without doing it",
    )
    parser.add_argument("config", type=Path, help="config file")
    parser.add_argument("--request", type=Path, required=True, help="file with the JSON body of a chat completion")
    parser.add_argument("--key", help="configured name of the caller's key")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print a JSON object; returns 0, or 2 with one line when the config or the request is wrong."""
    try:
        config = load_config(args.config)
        shown = explain(config, args.request.read_bytes(), args.key)
    except OSError as error:
        sys.stderr.write(f"cannot read {args.request}: {error.strerror or error}\n")
        return 2
    except ConfigError as error:
        sys.stderr.write(f"{name_file(args.config, str(error).splitlines())}\n")
        return 2
    except RequestError as error:
        sys.stderr.write(f"{error.status} {error.code}: {error.message}\n")
        return 2
    sys.stdout.write(json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
    return 0


def explain(config: Config, raw: bytes, key: str | None = None) -> dict[str, Any]:
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
    call = prepare(arrive(CHAT, caller, {}, made, made), parse_body(raw, config.limits.max_json_depth), catalogue)
    segments = CHAT.request_segments(call.body)
    return {
        "model": call.model,
        "upstream": call.upstream,
        "policies": list(call.plan.policies),
        "version": version,
        "supervisors": explain_plan(call),
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


def _explain_stream(plan: StagePlan) -> dict[str, Any]:
    """Return how a streamed reply is held: the last so many characters of each supervisor, or `all` of the text."""
    whole = plan.stream.mode == "hold"
    held = {
        name: "all" if whole or stream_capability(supervisor) == "final" else holdback_of(supervisor)
        for name, supervisor in plan.blocking
    }
    return {"mode": plan.stream.mode, "window_chars": plan.stream.window_chars, "held_back_chars": held}
