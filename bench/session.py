"""One run of the bench: which servers are up while what is measured, section by section."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from bench import peers, throughput
from bench.conditions import conditions
from bench.endurance import measure_endurance
from bench.latency import Added, added_first_token, added_latency, first_token_alone
from bench.native import Invalid
from bench.process import pinned, preferred
from bench.report import Report
from bench.streaming import measure_streams
from bench.targets import Target, fake_upstream, nginx, ours, relay

OURS = "guardrail-proxy"
JUDGED = "guardrail-proxy, every chunk judged"
WINDOWS = "guardrail-proxy, windows of 1,000 characters"
UNTUNED = "guardrail-proxy, Python's own collector settings"
SECTIONS = ("throughput", "latency", "streams", "parts", "judges", "endurance")
SECOND_JUDGE_MS = 30.0
"""Delay of the second-fastest judge of the panel, see `BEHAVIOURS`."""


class Paired(Protocol):
    """A measurement of what targets add, as in `bench.latency`."""

    def __call__(
        self, base: Target, others: Sequence[Target], /, *, rate: float, seconds: float
    ) -> Mapping[str, Added]:
        """Measure."""
        ...


@dataclass(frozen=True, slots=True)
class Options:
    """What to measure, and how long.

    Args:
        rounds: interleaved rounds.
        seconds: of one throughput measurement.
        latency_s: seconds of one latency measurement at 50 requests a second.
        further: requests of the endurance run after the first 10,000.
        sections: which of `SECTIONS`.
        ahead: measure throughput too ahead of foreign load, which stands still meanwhile.
        litellm: environment of LiteLLM's proxy.
        nemo: environment of NeMo Guardrails.
        portkey: folder with ``node_modules/@portkey-ai/gateway``.
        commands: other gateways as ``NAME=COMMAND``.
    """

    rounds: int = 3
    seconds: float = 4.0
    latency_s: float = 20.0
    further: int = 100_000
    sections: tuple[str, ...] = SECTIONS
    ahead: bool = False
    litellm: Path | None = None
    nemo: Path | None = None
    portkey: Path | None = None
    commands: tuple[str, ...] = ()


@dataclass(slots=True)
class Session:
    """A run under way."""

    options: Options
    folder: Path
    report: Report
    upstream: Target
    plain: list[Target] = field(default_factory=list[Target])
    peers: list[Target] = field(default_factory=list[Target])

    def attempt(self, name: str, work: Callable[[], None]) -> None:
        """Measure something; what cannot be measured is named in the report instead of stopping the run."""
        print(f"… {name}", file=sys.stderr, flush=True)
        try:
            work()
        except (Invalid, RuntimeError, OSError) as problem:
            self.report.missing.append(f"{name}: {' '.join(str(problem).split())[:300]}")

    @contextmanager
    def before_others(self, targets: Sequence[Target]) -> Generator[None]:
        """Keep foreign load out of measurements of time, where that is permitted; the report says whether it was."""
        with preferred([one.process for one in targets], roaming=True) as permitted:
            self.report.conditions["latency measured"] = f"{_ahead(permitted)}, on any core"
            yield

    @contextmanager
    def weighted(self, targets: Sequence[Target]) -> Generator[None]:
        """Leave little time to foreign load while servers are saturated."""
        with preferred([one.process for one in targets]) as permitted:
            self.report.conditions["throughput measured"] = _ahead(permitted)
            yield

    def measure_throughput(self) -> None:
        """Measure requests a second and CPU time a request of everything that runs."""
        options, report = self.options, self.report
        with (
            ours(self.folder, self.upstream, OURS) as own,
            ours(self.folder, self.upstream, UNTUNED, kind="untuned") as untuned,
        ):
            targets = [self.upstream, *self.plain, own, *self.peers]
            throughput.warm_up([*targets, untuned], self.upstream)
            measure = partial(throughput.measure, upstream=self.upstream, rounds=options.rounds)
            with self.weighted([*targets, untuned]) if options.ahead else nullcontext():
                report.throughput = measure(targets, seconds=options.seconds)
                report.tails = measure([own, untuned], seconds=options.seconds, connections=64)
                sizes = [
                    throughput.measure_once(own, self.upstream, seconds=options.seconds, body_bytes=size).cpu_us
                    for _ in range(options.rounds)
                    for size in (811, 64 * 1024)
                ]
        mine = report.throughput[OURS].per_core_s
        for name, one in report.throughput.items():
            if name in ("nginx", "litellm", "nemo", "portkey", "vllm-router"):
                report.values[name] = mine / one.per_core_s
        foreign = max(one.median("foreign_share") for one in report.throughput.values())
        report.conditions["foreign load"] = f"up to {foreign:.2f} cores (median of the rounds)"
        tail = report.tails[OURS]
        report.values["tail"] = tail.median("p99_ms") / tail.median("p50_ms")
        report.values["large_body"] = sorted(sizes[1::2])[options.rounds // 2] / sorted(sizes[::2])[options.rounds // 2]

    def measure_latency(self) -> None:
        """Measure what is added at 50 requests a second; heavy peers have the core to themselves in turn."""
        report = self.report
        added: dict[str, Added] = {}
        first: dict[str, Added] = {}
        alone: dict[str, float] = {}
        light = [one for one in self.plain if one.name == "nginx"]
        with ours(self.folder, self.upstream, OURS, ["--window-chars", "1"]) as own:
            for group in ([*light, own], *[[peer] for peer in self.peers]):
                name = group[-1].name
                with self.before_others([self.upstream, *group]):
                    self.attempt(f"added latency, {name}", partial(self._add, added, added_latency, group, 50))
                    self.attempt(f"first chunk, {name}", partial(self._add, first, added_first_token, group, 10))
                    self.attempt(f"first chunk of one stream, {name}", partial(self._add_alone, alone, group))
        report.added, report.first, report.alone = added, first, alone
        if OURS in added:
            report.values |= {"added_p50": added[OURS].p50, "added_p99": added[OURS].p99}
        if OURS in alone:
            report.values["first_p50"] = alone[OURS]

    def _add_alone(self, found: dict[str, float], group: Sequence[Target]) -> None:
        found |= first_token_alone(self.upstream, [one for one in group if not one.fixed])

    def _add(self, found: dict[str, Added], measure: Paired, group: Sequence[Target], rate: float) -> None:
        fixed = [one.name for one in group if one.fixed]
        if fixed:
            msg = f"{', '.join(fixed)} knows one upstream only, the one without delay"
            raise Invalid(msg)
        found |= measure(self.upstream, group, rate=rate, seconds=self.options.latency_s)

    def measure_chunks(self) -> None:
        """Measure streams: direct, through the plain relays, and judged in two ways."""
        options, report = self.options, self.report
        with (
            ours(self.folder, self.upstream, JUDGED, ["--window-chars", "1"]) as judged,
            ours(self.folder, self.upstream, WINDOWS) as windows,
        ):
            targets = [self.upstream, *[one for one in self.plain if one.name != "aiohttp"], judged, windows]
            report.flood = measure_streams(targets, rounds=options.rounds, flood=True)
            with self.weighted(targets):
                report.streams = measure_streams(targets, rounds=options.rounds, flood=False)
        report.values |= {
            "chunk": report.flood[WINDOWS].chunk_us,
            "chunk_ratio": report.flood[WINDOWS].chunk_us / report.flood["relay"].chunk_us,
            "relay_p99": report.streams[JUDGED].p99_ms,
        }

    def measure_parts(self) -> None:
        """Measure our own parts in one process, without sockets."""
        found = _run_module("bench.inprocess")
        self.report.values |= {
            "supervisor": (found["exchange_13"] - found["exchange_3"]) / 20,
            "empty_stage": found["stage_0"],
            "records": found["exchange_3"] - found["unrecorded_3"],
        }

    def measure_judges(self) -> None:
        """Measure a judge call beside litellm's, a panel of three, and an input guard beside the model."""
        found = _run_module("bench.judged", f"http://127.0.0.1:{self.upstream.port}/j1/v1")
        self.report.values["judge"] = found["context.chat"] / found["litellm.acompletion"]
        panel = ["--inputs", "0", "--outputs", "0", "--judges", "judge,judge-slow,judge-last", "--vote"]
        plain = ["--inputs", "0", "--outputs", "0"]
        beside = [*plain, "--judges", "judge-fast", "--parallel"]
        with ours(self.folder, self.upstream, "panel", panel) as voted, self.before_others([self.upstream, voted]):
            added = added_latency(self.upstream, [voted], rate=20, seconds=self.options.latency_s, behaviour="fast")
            self.report.values["panel"] = added["panel"].p50 - SECOND_JUDGE_MS
        with (
            ours(self.folder, self.upstream, "unguarded", plain) as unguarded,
            ours(self.folder, self.upstream, "parallel", beside) as guarded,
            self.before_others([self.upstream, unguarded, guarded]),
        ):
            first = added_first_token(unguarded, [guarded], rate=20, seconds=self.options.latency_s)
            self.report.values["parallel"] = first["parallel"].p95

    def measure_endurance(self) -> None:
        """Measure memory, sockets and records over many requests."""
        found = measure_endurance(self.folder, self.options.further)
        self.report.values |= {
            "rss": found.used_mb,
            "growth": found.growth * 100,
            "rows_lost": float(found.rows_lost),
            "sockets": float(found.sockets_left),
        }
        self.report.conditions["endurance"] = (
            f"{found.further:,} further requests at {found.per_s:,.0f} a second, "
            f"{found.idle_mb:.0f} MB idle, {found.used_mb:.0f} MB after 10,000, {found.grown_mb:.0f} MB at the end"
        )


def measure_all(options: Options, folder: Path) -> Report:
    """Run every chosen section and return what was found."""
    environments = (("litellm", options.litellm), ("nemoguardrails", options.nemo))
    named = peers.versions([(name, path) for name, path in environments if path is not None])
    report = Report(conditions(named))
    with ExitStack() as stack:
        upstream = stack.enter_context(fake_upstream(folder))
        session = Session(options, folder, report, upstream)
        for name, server in _plain(session):
            session.attempt(name, partial(_enter, stack, server, session.plain))
        for name, server in _peers(session):
            session.attempt(name, partial(_enter, stack, server, session.peers))
        for section, work in (
            ("throughput", session.measure_throughput),
            ("latency", session.measure_latency),
            ("streams", session.measure_chunks),
            ("parts", session.measure_parts),
            ("judges", session.measure_judges),
            ("endurance", session.measure_endurance),
        ):
            if section in options.sections:
                session.attempt(section, work)
    return report


def _enter(stack: ExitStack, server: AbstractContextManager[Target], into: list[Target]) -> None:
    into.append(stack.enter_context(server))


def _plain(session: Session) -> Iterator[tuple[str, AbstractContextManager[Target]]]:
    yield "nginx", nginx(session.folder, session.upstream)
    yield "relay", relay(session.folder, session.upstream)
    yield "aiohttp", relay(session.folder, session.upstream, "aiohttp")


def _peers(session: Session) -> Iterator[tuple[str, AbstractContextManager[Target]]]:
    options, folder, upstream = session.options, session.folder, session.upstream
    for name, start, environment in (
        ("litellm", peers.litellm, options.litellm),
        ("nemo", peers.nemo, options.nemo),
        ("portkey", peers.portkey, options.portkey),
    ):
        if environment is None:
            session.report.missing.append(f"{name}: no environment was named; give one with --{name}-env")
        else:
            yield name, start(folder, upstream, environment)
    for template in options.commands:
        yield template.partition("=")[0], peers.command(folder, upstream, template)


def _ahead(permitted: bool) -> str:
    return "ahead of foreign load (nice −20)" if permitted else "beside foreign load: not permitted to go ahead"


def _run_module(module: str, *arguments: str) -> dict[str, float]:
    command = pinned("target", [sys.executable, "-W", "ignore", "-m", module, *arguments])
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        msg = f"{module} failed: {done.stderr[-300:]}"
        raise Invalid(msg)
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
