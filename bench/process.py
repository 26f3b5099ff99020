"""Start servers on their own core and read what the kernel has booked for them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Place = Literal["target", "tools"]
TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


def pinned(place: Place, command: Sequence[str]) -> list[str]:
    """Prefix a command so that targets run on the first core of this process and tools on the last."""
    cores = sorted(os.sched_getaffinity(0))
    taskset = shutil.which("taskset")
    if taskset is None or len(cores) < 2:
        return list(command)
    return [taskset, "-c", str(cores[0] if place == "target" else cores[-1]), *command]


@dataclass(frozen=True, slots=True)
class Process:
    """A running server of the bench."""

    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """Process id of the first process; its children count too."""
        return self.popen.pid

    def cpu_s(self) -> float:
        """Return user and system time of the process and all its descendants."""
        return sum(_cpu_s(pid) for pid in _tree(self.pid))

    def main_thread_s(self) -> float:
        """Return the CPU time of the main thread alone: the event loop of a Python server."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text().split()[0]) / 1e9

    def rss_bytes(self) -> int:
        """Return the resident memory of the process and all its descendants."""
        page = os.sysconf("SC_PAGE_SIZE")
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * page for pid in _tree(self.pid))

    def sockets(self) -> int:
        """Count open sockets."""
        found = 0
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                found += str(entry.readlink()).startswith("socket:")
            except OSError:
                continue
        return found


def _tree(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def _cpu_s(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * TICK_S


@contextmanager
def preferred(processes: Sequence[Process], *, roaming: bool = False) -> Generator[bool]:
    """Let these servers, and the tools started meanwhile, run before anybody else; yields whether that is permitted.

    By weight (nice −20), never by real-time priority: a real-time task waits on its own core for a kernel thread that
    does not yield, an ordinary one is woken on another core.

    Args:
        processes: servers.
        roaming: they may also leave the core they are pinned to, for time at low rates: on a kernel built without
            preemption a kernel thread holds a core for milliseconds, and a pinned server would wait for it.
    """
    threads = [0, *[int(entry.name) for one in processes for pid in _tree(one.pid) for entry in _threads(pid)]]
    permitted = all(_weigh(thread) for thread in threads)
    cores = {thread: _moved(thread, range(os.cpu_count() or 1)) for thread in threads[1:]} if roaming else {}
    try:
        yield permitted
    finally:
        for thread in threads:
            _weigh(thread, nice=0)
        for thread, before in cores.items():
            _moved(thread, before)


def _moved(thread: int, cores: Iterable[int]) -> set[int]:
    """Let a thread run on these cores, and return those it had."""
    try:
        before = os.sched_getaffinity(thread)
        os.sched_setaffinity(thread, cores)
    except ProcessLookupError:  # a thread that has ended meanwhile
        return set()
    return before


def _threads(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def _weigh(thread: int, nice: int = -20) -> bool:
    try:
        os.setpriority(os.PRIO_PROCESS, thread, nice)
        group = Path(f"/proc/{thread or os.getpid()}/autogroup")
        if group.exists():  # where sessions are weighed against each other, the weight of a thread says little
            group.write_text(str(nice))
    except PermissionError:
        return False
    except OSError:  # a thread that has ended meanwhile
        return True
    return True


def machine_busy_s() -> float:
    """Return the CPU time spent on this machine since boot by anybody, idle and steal excluded."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:7])) * TICK_S


def free_port() -> int:
    """Return a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def run(
    command: Sequence[str],
    port: int,
    folder: Path,
    *,
    place: Place = "target",
    patience_s: float = 60.0,
    settings: Mapping[str, str] | None = None,
) -> Generator[Process]:
    """Run a server until the body ends; yields once its port answers.

    Args:
        command: what to start.
        port: loopback port to wait for.
        folder: for its output.
        place: which core.
        patience_s: how long it may take to listen.
        settings: added to its environment.

    Raises:
        RuntimeError: it did not start; the end of its output is in the message.
    """
    log = folder / f"{port}.log"
    with log.open("wb") as output:
        popen = subprocess.Popen(
            pinned(place, command),
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**_environment(), **(settings or {})},
            cwd=folder,
            start_new_session=True,
        )
    try:
        _wait(popen, port, log, patience_s)
        yield Process(popen, log)
    finally:
        _stop(popen)


def _environment() -> Mapping[str, str]:
    kept = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
    root = str(Path(__file__).parent.parent)
    found = dict(os.environ)  # noqa: TID251 - servers of the bench need a PATH; nothing here is configuration
    return {"PYTHONPATH": root, **{name: found[name] for name in kept if name in found}}


def _wait(popen: subprocess.Popen[bytes], port: int, log: Path, patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while popen.poll() is None and time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    msg = f"{popen.args!r} does not listen on {port}: {log.read_text('utf-8', 'replace')[-800:]}"
    raise RuntimeError(msg)


def _stop(popen: subprocess.Popen[bytes]) -> None:
    """End the process group that `run` started."""
    for signal_ in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(popen.pid, signal_)
        except ProcessLookupError:
            return
        try:
            popen.wait(8)
        except subprocess.TimeoutExpired:
            continue
        return
