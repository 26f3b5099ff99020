"""Build the C programs of the bench and run the load generator."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.process import Place, pinned

SOURCES: Final = Path(__file__).parent / "native"
BUILD: Final = Path(__file__).parent / "build"


class Invalid(RuntimeError):
    """A measurement that must not be reported: a request failed, or a tool is missing."""


def build(name: str) -> Path:
    """Compile one program of ``bench/native`` unless it is newer than its source.

    Raises:
        Invalid: no C compiler, or it refuses the source.
    """
    source, program = SOURCES / f"{name}.c", BUILD / name
    if program.exists() and program.stat().st_mtime > source.stat().st_mtime:
        return program
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    if compiler is None:
        msg = "the load generator and the fake upstream need a C compiler: install gcc or clang"
        raise Invalid(msg)
    BUILD.mkdir(exist_ok=True)
    done = subprocess.run([compiler, "-O2", "-o", program, source], capture_output=True, text=True, check=False)
    if done.returncode:
        msg = f"{compiler} cannot compile {source.name}: {done.stderr[-500:]}"
        raise Invalid(msg)
    return program


@dataclass(frozen=True, slots=True)
class Address:
    """Where one target takes requests: loopback port, path, and header lines it wants beside the usual ones."""

    port: int
    path: str = "/v1/chat/completions"
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of the generator found; times in microseconds.

    Args:
        completed: finished requests, all of them good.
        seconds: wall-clock time of the run.
        generator_cpu_s: CPU time of the generator.
        raw: the generator's own JSON.
    """

    completed: int
    seconds: float
    generator_cpu_s: float
    raw: dict[str, Any]

    def percentile(self, name: str, which: str) -> float:
        """Return for example the ``p99`` of ``total``."""
        return float(self.raw[name][which])

    def samples(self, name: str) -> list[float]:
        """Return all samples of an open-loop run, in order of arrival."""
        return [float(value) for value in self.raw[name]]


def closed(body: bytes, expect: str, address: Address, *, connections: int, seconds: float) -> Load:
    """Send requests back to back on so many connections."""
    return _run(["closed", str(seconds), "0", str(connections)], body, expect, [address])


def count(body: bytes, expect: str, address: Address, *, connections: int, requests: int) -> Load:
    """Send exactly so many requests, back to back."""
    return _run(["count", str(requests), str(connections)], body, expect, [address])


def open_loop(body: bytes, expect: str, addresses: Sequence[Address], *, rate: float, seconds: float) -> Load:
    """Send `rate` requests a second to each address, taking turns, each counted from its intended time.

    The generator runs on any core: at such rates it waits for nobody but a kernel thread that holds the core it is on.
    """
    return _run(["open", str(seconds), str(rate)], body, expect, addresses, place=None)


def streams(body: bytes, chunks: int, address: Address, *, connections: int, rounds: int = 1) -> Load:
    """Read so many streams at once, each to its end, `rounds` times over."""
    return _run(["streams", str(rounds), str(connections)], body, str(chunks), [address])


def _run(
    command: list[str], body: bytes, expect: str, addresses: Sequence[Address], place: Place | None = "tools"
) -> Load:
    with tempfile.NamedTemporaryFile(prefix="bench-body-") as file:
        file.write(body)
        file.flush()
        where = [part for address in addresses for part in (str(address.port), address.path)]
        tool = [str(build("load")), *command, file.name, expect, *where]
        extra = "".join([f"{line}\r\n" for line in dict.fromkeys(line for one in addresses for line in one.headers)])
        settings = {"BENCH_HEADERS": extra}
        full = tool if place is None else pinned(place, tool)
        done = subprocess.run(full, capture_output=True, text=True, check=False, timeout=900, env=settings)
    if done.returncode:
        msg = f"the load generator failed: {done.stderr[-300:]}"
        raise Invalid(msg)
    found: dict[str, Any] = json.loads(done.stdout)
    if found["failed"]:
        msg = f"{found['failed']} of {found['completed']} requests to port {addresses[0].port} failed: {found['error']}"
        raise Invalid(msg)
    return Load(found["completed"], found["seconds"], found["generator_cpu_s"], found)
