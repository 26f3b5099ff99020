"""Serve an ASGI application on loopback inside this process, on a port the system chooses."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, MutableMapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

import orjson
import uvicorn

from supervisors.errors import ConfigError

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

_START_S = 60.0


class _Server(uvicorn.Server):
    """A server that leaves signals alone: the run decides what an interruption means (H-118)."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Take no signal."""
        yield

    async def serve_on(self, listener: socket.socket) -> None:
        """Serve until told to stop; return at once when the application does not start."""
        try:
            await self.serve(sockets=[listener])
        except SystemExit:
            log.debug("the application did not start")  # uvicorn would leave the process; `started` stays false


@asynccontextmanager
async def serve(app: App, why: Callable[[], Exception | None] = lambda: None) -> AsyncGenerator[str]:
    """Serve while the body runs; yields the base URL without a path.

    Args:
        app: the application.
        why: tells why it did not start, if it knows.

    Raises:
        ConfigError: it did not start.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        host, port = cast("tuple[str, int]", listener.getsockname())
        server = _Server(
            uvicorn.Config(
                app, http="httptools", lifespan="auto", access_log=False, log_config=None, timeout_graceful_shutdown=5
            )
        )
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve_on(listener))
            try:
                async with asyncio.timeout(_START_S):
                    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn tells nobody when it is
                        await asyncio.sleep(0.005)
                if not server.started:
                    msg = f"the server on loopback did not start: {why() or 'it ended'}"
                    raise ConfigError(msg)
                yield f"http://{host}:{port}"
            finally:
                server.should_exit = True


async def read_json(receive: Receive) -> dict[str, Any]:
    """Read a request body as a JSON object; anything else is an empty one."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = bool(message.get("more_body")) and message["type"] == "http.request"
    try:
        value: object = orjson.loads(bytes(body))
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


async def send_json(send: Send, value: object, status: int = 200) -> None:
    """Answer with a JSON body."""
    body = orjson.dumps(value)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def completion(model: str, text: str, prompt: str = "") -> dict[str, Any]:
    """Return a chat completion; tokens are counted as words, which is what these servers can say."""
    used = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
    return {
        "id": "chatcmpl-loopback",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {**used, "total_tokens": used["prompt_tokens"] + used["completion_tokens"]},
    }


def error(message: str, code: str) -> dict[str, Any]:
    """Return an error body in OpenAI form."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
