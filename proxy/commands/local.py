"""`guardrail-proxy local`: the local model by itself."""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys

from proxy.arguments import Subparsers, read_port
from proxy.local import LocalSettings, start_local
from supervisors.errors import ConfigError


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "local", help="run the local model (extra 'local')", description="run the local model (extra 'local')"
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    serve = verbs.add_parser(
        "serve", help="serve it on loopback until interrupted", description="serve it on loopback until interrupted"
    )
    serve.add_argument("--port", type=read_port, default=0, help="0 picks a free port")
    serve.add_argument("--slots", type=_read_count, default=2, help="requests at once")
    serve.add_argument("--threads", type=_read_count, default=1, help="CPU threads")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until interrupted; returns 0, 3 when the packages are missing, or 4 when the port is taken."""
    taken = _try_port(args.port)
    if taken is not None:
        sys.stderr.write(f"error: cannot listen on 127.0.0.1:{args.port}: {taken}; --port 0 picks a free port\n")
        return 4
    try:
        asyncio.run(_serve(settings_of(args)))
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 3
    except KeyboardInterrupt:
        return 0
    return 0


def _try_port(port: int) -> str | None:
    """Return why nobody can listen on a port, None if somebody can: the child process does not say."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def settings_of(args: argparse.Namespace) -> LocalSettings:
    """Return how the server runs."""
    return LocalSettings(slots=args.slots, threads=args.threads, port=args.port)


def _read_count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        msg = f"{text!r} is no number of at least 1"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


async def _serve(settings: LocalSettings) -> None:
    server = await start_local(settings)
    sys.stdout.write(f"base_url: {server.url}\napi_key: {server.api_key}\nmodel: {settings.model}\n")
    sys.stdout.flush()
    try:
        await asyncio.Event().wait()
    finally:
        await server.aclose()
