"""A file server on loopback that breaks off, forgets ranges, or lies, as it is told."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast


@dataclass
class FakeFiles:
    """What it holds and how it misbehaves.

    Args:
        files: by path, without the first slash.
        cuts: bytes after which each of the next answers ends early.
        ranges: whether it keeps to ``range``.
        shift: how far the part it sends is from the part that was asked for.
        silent: it does not say how long a file is.
        moved: where every path is redirected to, empty for nowhere.
        asked: path and range of every request.
    """

    files: Mapping[str, bytes]
    cuts: list[int] = field(default_factory=list[int])
    ranges: bool = True
    shift: int = 0
    silent: bool = False
    moved: str = ""
    asked: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    url: str = ""


def _read_start(asked: str | None) -> int:
    return 0 if asked is None else int(asked.removeprefix("bytes=").rstrip("-"))


class _Server(ThreadingHTTPServer):
    """Listens on a free port and knows the files."""

    def __init__(self, files: FakeFiles) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        files.url = f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        files = cast("_Server", self.server).files  # the server it was made by
        asked = self.headers.get("range")
        files.asked.append((self.path, asked))
        content = files.files.get(self.path[1:])
        if files.moved:
            self._head(302, {"location": files.moved + self.path, "content-length": "0"})
        elif content is None:
            self._head(404, {"content-length": "0"})
        else:
            self._send(files, content, _read_start(asked) if files.ranges else 0)

    def _send(self, files: FakeFiles, content: bytes, start: int) -> None:
        rest = content[start:]
        head = {} if files.silent else {"content-length": str(len(rest))}
        if start:
            head["content-range"] = f"bytes {start + files.shift}-{len(content) - 1}/{len(content)}"
        self._head(206 if start else 200, head)
        self.wfile.write(rest[: files.cuts.pop(0)] if files.cuts else rest)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the parent's parameter
        """Stay silent."""


@contextmanager
def serve_files(files: FakeFiles) -> Generator[FakeFiles]:
    """Serve the files while the body runs."""
    server = _Server(files)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
