"""`guardrail-proxy serve`: run the proxy until it is told to stop, then drain."""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import math
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import cast

import uvicorn

from proxy.admin import take_snapshot
from proxy.app import App, create_app
from proxy.arguments import Subparsers, read_port, say_errors, take_config
from proxy.checks import load_checked, refuse_errors
from proxy.config import Config
from proxy.edge import STALL_S, EdgeProtocol, server_settings
from proxy.ending import end_with
from proxy.gateway import Gateway
from proxy.logs import set_up_logging
from proxy.reload import ConfigSource
from proxy.workers.peers import Peers
from proxy.workers.seat import MOST_WORKERS, Seat, serve_crew
from proxy.workers.shared import SharedSource
from supervisors.errors import ConfigError, GuardrailError, MissingError, StoreError

log = logging.getLogger(__name__)

_LAST_S = 5
"""Time for ended exchanges to say so, before their connections are cut."""
_AT_ONCE_S = 1.0
"""The same after a second signal."""


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = commands.add_parser("serve", help="run the proxy", description="run the proxy")
    parser.add_argument("--host", help="address to listen on; overrides server.host")
    parser.add_argument("--port", type=read_port, help="port to listen on, 0 for a free one; overrides server.port")
    parser.add_argument("--workers", type=_number, default=1, help="processes that serve together, 1 to 64; default 1")
    parser.add_argument("--log-level", default="INFO", choices=["DEBUG", "INFO", "WARNING", "ERROR"])
    parser.add_argument("--seat", help=argparse.SUPPRESS)
    take_config(parser, run, says="config file, see docs/configuration.md")


def _number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_WORKERS:
        msg = f"{text!r} is no number of workers; give one from 1 to {MOST_WORKERS}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Serve; returns 0 after a drain, 1 failure, 2 config error, 3 something named is missing, 4 the port is taken."""
    set_up_logging(args.log_level)
    if args.seat is not None:
        return end_with(serve_worker(args, Seat.parse(args.seat)))
    adapt = overriding(args)
    source = ConfigSource(args.config, adapt)
    try:
        config = adapt(load_checked(args.config))
        refuse_errors(config)  # with what the command line changes, before anything is opened
    except ConfigError as error:
        return fail(error, args.config)
    try:
        listener = listen(config.server.host, config.server.port)
    except OSError as error:
        where = f"{config.server.host}:{config.server.port}"
        taken = error.errno == errno.EADDRINUSE
        remedy = "; give another port with --port, or as server.port in the config" if taken else ""
        sys.stderr.write(f"error: cannot listen on {where}: {error.strerror}{remedy}\n")
        return 4
    host, port = listener.getsockname()[:2]
    if args.workers > 1:
        return serve_crew(args, listener, partial(greet, host, port))
    return end_with(serve(create_app(config, source), listener, args.config))


def overriding(args: argparse.Namespace) -> Callable[[Config], Config]:
    """Return what applies the options of the command line to a config."""
    changes = {name: value for name, value in (("host", args.host), ("port", args.port)) if value is not None}

    def adapt(read: Config) -> Config:
        return read.model_copy(update={"server": read.server.overridden(changes)})

    return adapt


def serve_worker(args: argparse.Namespace, seat: Seat) -> int:
    """Serve as one of several."""
    source = SharedSource(args.config, seat.folder, overriding(args))
    try:
        config = source.read()
        source.applied()
    except (ConfigError, OSError) as error:
        return fail(error, args.config)
    app = create_app(config, source)
    app.gateway.hmac_key = seat.read_key()
    app.gateway.peers = Peers(seat.folder, partial(take_snapshot, app.gateway))
    try:
        return serve(app, socket.socket(fileno=seat.listener), args.config, seat.parent)
    finally:
        seat.leave()


def serve(app: App, listener: socket.socket, file: Path, parent: int | None = None) -> int:
    """Serve in this process; returns the exit code.

    Args:
        app: what is served.
        listener: bound.
        file: config file, for the words of an error.
        parent: a descriptor that ends with the process above this one.
    """
    config = app.gateway.config
    server = DrainingServer(
        server_settings(
            app,
            end_s=math.ceil(config.server.drain_timeout_s) + _LAST_S,
            stall_s=min(STALL_S, config.limits.request_timeout_s),
        ),
        app.gateway,
        parent,
        partial(greet, *listener.getsockname()[:2]) if parent is None else None,
    )
    with suppress(SystemExit):  # uvicorn's own exit code of a failed start would hide which failure it was
        server.run(sockets=[listener])
    failure = app.gateway.failure
    if isinstance(failure, GuardrailError):
        return fail(failure, file)
    if failure is None and server.started:
        return _say_lost(app.gateway.lost)
    said = "could not start" if not server.started else "ended"
    sys.stderr.write(f"error: the proxy {said}: {_say(failure)}\n")
    return 1


def _say_lost(lost: int) -> int:
    """Return the exit code of a drain; records that are lost are a failure, said last."""
    if lost:
        said = "1 record is" if lost == 1 else f"{lost} records are"
        sys.stderr.write(f"error: the proxy ended: the journal could not be written, {said} lost\n")
    return 1 if lost else 0


def _say(failure: Exception | None) -> str:
    """Say in one line what happened; the log has the rest."""
    while isinstance(failure, ExceptionGroup):
        failure = cast("ExceptionGroup[Exception]", failure).exceptions[0]  # what isinstance cannot tell
    return "see the log" if failure is None else " ".join(f"{type(failure).__name__}: {failure}".split())


def fail(error: Exception, file: Path) -> int:
    """Print one line a problem and return the exit code."""
    say_errors(error, file if isinstance(error, ConfigError) else None)
    return 3 if isinstance(error, MissingError | StoreError) else 2


def greet(host: str, port: int) -> None:
    """Say where the proxy answers, now that it does: in the log, and in words on a terminal."""
    log.info("listening", extra={"host": host, "port": port})
    if not sys.stdout.isatty():
        return
    named = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - what everybody may reach, this machine too
    url = f"http://[{named}]:{port}" if ":" in named else f"http://{named}:{port}"
    sys.stdout.write(
        f"guardrail-proxy {version('guardrail-proxy')} is up; Ctrl-C stops it\n"
        f"  base_url  {url}/v1\n"
        f"  console   {url}/console\n"
        f"  metrics   {url}/metrics\n"
        f"  health    {url}/readyz\n"
    )
    sys.stdout.flush()


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket; raises OSError when the address is taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.setblocking(False)
    return listener


class DrainingServer(uvicorn.Server):
    """A server that first turns `/readyz` to 503 and only later stops accepting (O-09).

    Args:
        config: of uvicorn.
        gateway: told to stop; its config says how long to accept and to wait after the first signal.
        parent: a descriptor that ends with the process above this one, which then ends as at a signal.
        started: called once requests are answered.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        gateway: Gateway,
        parent: int | None = None,
        started: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(config)
        self._gateway = gateway
        self._parent = parent
        self._greet = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and from then on read the config again at SIGHUP."""
        await super().startup(sockets)
        if self.started and self._greet is not None:
            self._greet()
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._gateway.request_reload)
        if self._parent is not None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
            asyncio.get_running_loop().add_reader(self._parent, self._orphaned, self._parent)

    async def on_tick(self, counter: int) -> bool:
        """End also when what serves has failed: the process is started anew by whoever looks after it."""
        return await super().on_tick(counter) or self._gateway.failure is not None

    def _orphaned(self, parent: int) -> None:
        asyncio.get_running_loop().remove_reader(parent)
        log.error("the process above this worker is gone")
        self.handle_exit(signal.SIGTERM, None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain on the first signal; end what runs on the second."""
        loop = asyncio.get_running_loop()
        if self._gateway.stopping:
            loop.call_soon_threadsafe(self._stop)
            loop.call_soon_threadsafe(self._gateway.end_all)
            loop.call_soon_threadsafe(loop.call_later, _AT_ONCE_S, self._cut)
            loop.call_soon_threadsafe(loop.call_later, 2 * _AT_ONCE_S, self._force)
            return
        self._gateway.stopping = True
        loop.call_soon_threadsafe(loop.call_later, self._gateway.config.server.drain_grace_s, self._stop)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down; also when forced, records are flushed."""
        await super().shutdown(sockets)
        if self.force_exit:
            tasks = list(self.server_state.tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=_AT_ONCE_S)
            await self.lifespan.shutdown()

    def _cut(self) -> None:
        """Hang up on callers that take nothing: they have had their time, and what serves them ends by itself then."""
        connections = [cast("EdgeProtocol", one) for one in self.server_state.connections]
        if connections:
            log.info("connections are cut", extra={"connections": len(connections)})
        for connection in connections:
            connection.transport.abort()

    def _force(self) -> None:
        self.force_exit = True

    def _stop(self) -> None:
        if not self.should_exit:
            self._gateway.draining = True
            self.should_exit = True
            timeout_s = self._gateway.config.server.drain_timeout_s
            self.config.timeout_graceful_shutdown = math.ceil(timeout_s) + 2 * _LAST_S
            loop = asyncio.get_running_loop()
            loop.call_later(timeout_s, self._gateway.end_all)
            loop.call_later(timeout_s + _LAST_S, self._cut)
