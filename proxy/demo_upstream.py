"""The fake model server of the demo, for machines without the local model: it repeats what it was told."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Final

FAKE_MODEL: Final = "fake-echo"


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a chat request with its last message."""
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = body["messages"][-1]["content"]
        message = {"role": "assistant", "content": f"You said: {said}"}
        reply = {
            "id": "fake",
            "object": "chat.completion",
            "created": 0,
            "model": FAKE_MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        }
        raw = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the overridden method
        """Say nothing: the demo's output is its own."""


@contextmanager
def start_fake() -> Generator[str]:
    """Serve on loopback while the body runs; yields the base URL up to and including ``/v1``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Echo)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
