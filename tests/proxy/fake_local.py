"""A stand-in for the package of the local model: the child process is the real one, its model says one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

SAYS = "a short reply"
_PACKAGE = f"""
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import SimpleNamespace


def CommonParams():
    named = ("model", "cpuparams", "cpuparams_batch")
    return SimpleNamespace(**{{name: SimpleNamespace() for name in named}})


class Server:
    def __init__(self, params):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.reply(200, {{"status": "ok"}})

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                if self.headers["authorization"] != f"Bearer {{params.api_keys[0]}}":
                    return self.reply(401, {{}})
                message = {{"role": "assistant", "content": {SAYS!r}}}
                choice = {{"index": 0, "message": message, "finish_reason": "stop"}}
                head = {{"id": "c", "object": "chat.completion", "created": 1, "model": "m"}}
                self.reply(200, {{**head, "choices": [choice]}})

            def reply(self, status, body):
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer((params.hostnames[0], params.port), Handler)
        self.listening_address = f"http://127.0.0.1:{{server.server_port}}"
        Thread(target=server.serve_forever, daemon=True).start()
"""


class FakePackage:
    """The package in a folder that child processes look into first.

    Args:
        folder: an empty one.
        monkeypatch: of the test.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.weights = folder / "model.gguf"
        self.weights.write_bytes(b"GGUF")
        self._file = folder / "xllamacpp.py"
        monkeypatch.setenv("PYTHONPATH", str(folder))
        self.repair()

    def repair(self) -> None:
        """Let children start."""
        self._file.write_text(_PACKAGE)

    def spoil(self) -> None:
        """Let no further child start."""
        self._file.write_text("raise SystemExit(1)")
