"""A hub of model weights on loopback, scripted by what it holds and by what goes wrong."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.timing import PATIENCE_S

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "onnx/model.onnx": b"violet graph",
    "tokenizer.json": b"{}",
    "config.json": b"{}",
    "README.md": b"# violet",
    "pytorch_model.bin": b"pickle",
    "model.safetensors": b"weights",
    ".gitattributes": b"",
}


@dataclass
class FakeHub:
    """What it holds and how it misbehaves.

    Args:
        files: by path.
        licence: as its card says.
        status: of every answer about the repository.
        announced: sizes that differ from the truth, by path.
        hashes: hashes that differ from the truth, by path.
        cut: paths whose body ends half-way.
        redirect: host that file bodies are redirected to, empty for none.
        commit: what the revision resolves to.
        answer: what it says of the repository instead of the truth, byte for byte.
        cut_answer: it ends half-way.
        asked: paths that were asked for.
        tokens: authorization headers that came.
    """

    files: dict[str, bytes] = field(default_factory=lambda: dict(FILES))
    licence: str = "apache-2.0"
    status: int = 200
    announced: dict[str, int] = field(default_factory=dict[str, int])
    hashes: dict[str, str] = field(default_factory=dict[str, str])
    cut: set[str] = field(default_factory=set[str])
    redirect: str = ""
    commit: str = COMMIT
    answer: bytes | None = None
    cut_answer: bool = False
    asked: list[str] = field(default_factory=list[str])
    tokens: list[str | None] = field(default_factory=list[str | None])
    url: str = ""

    def describe(self) -> dict[str, Any]:
        siblings = [self._sibling(path, content) for path, content in self.files.items()]
        return {"sha": self.commit, "gated": False, "cardData": {"license": self.licence}, "siblings": siblings}

    def _sibling(self, path: str, content: bytes) -> dict[str, Any]:
        size = self.announced.get(path, len(content))
        if path.endswith((".onnx", ".safetensors", ".bin")):
            digest = self.hashes.get(path) or hashlib.sha256(content).hexdigest()
            return {"rfilename": path, "size": size, "lfs": {"size": size, "sha256": digest}}
        blob = self.hashes.get(path) or hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # noqa: S324 - git's own
        return {"rfilename": path, "size": size, "blobId": blob}


@contextmanager
def serve_hub(hub: FakeHub) -> Generator[FakeHub]:
    """Serve the hub while the body runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hub.asked.append(self.path)
            hub.tokens.append(self.headers.get("authorization"))
            if self.path.startswith("/api/models/"):
                said = json.dumps(hub.describe()).encode() if hub.answer is None else hub.answer
                self._send(hub.status, said, cut=hub.cut_answer)
                return
            path = self.path.partition(f"/resolve/{hub.commit}/")[2]
            if hub.redirect and not self.path.startswith("/content"):
                self.send_response(302)
                self.send_header("location", f"{hub.redirect}/content{self.path}")
                self.send_header("content-length", "0")
                self.end_headers()
                return
            content = hub.files.get(path)
            if content is None:
                self._send(404, b"{}")
            else:
                self._send(200, content, cut=path in hub.cut)

        def _send(self, status: int, content: bytes, *, cut: bool = False) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cut else content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the parent's parameter
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join(PATIENCE_S)
