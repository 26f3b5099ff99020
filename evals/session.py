"""A run from its folder to its end: write manifest and plan, open the servers, make the trials, close the journal."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from evals.attempts import Caller
from evals.cache import Cache
from evals.client import Address, Guard, open_local
from evals.datasets.load import hash_file
from evals.exposition import keep_metrics, keep_metrics_while
from evals.fake import FakeModel
from evals.folder import RunFolder, make_run_id, write_json, write_lines
from evals.guarded import open_proxy
from evals.journal import Entry, JournalFile, JsonObject, now_text
from evals.limit import Limiter, fixed
from evals.manifest import Manifest, describe_environment, differences, read_manifest, write_manifest
from evals.options import RunOptions
from evals.plan import FORMAT_VERSION, PlannedTrial, read_plan, to_rows
from evals.prepare import Prepared
from evals.recorded import Recorded
from evals.replay import Counts, Ending, Runner, Used, snapshot, tick
from evals.serving import App, serve
from evals.spending import prices_of
from evals.state import Counting, remaining
from evals.statistics.jsonable import to_json
from evals.trials import Finished, Sender
from evals.writer import Writer
from supervisors.errors import ConfigError, StoreError
from supervisors.transport import HttpClient, TransportLimits

LOCAL_SLOTS = 2
"""Requests the local model answers at a time; more would only wait inside their deadline."""
_POOL = 1024
_REACH_S = 5.0
"""How long a server may take to accept the one connection before a run."""
_Send = Callable[[PlannedTrial], Awaitable[Finished]]


def create(prepared: Prepared, path: Path, argv: Sequence[str]) -> RunFolder:
    """Write plan and manifest of a new run; the manifest last, so that a folder with one is whole.

    Raises:
        StoreError: the disk does not take them.
    """
    folder = RunFolder(path)
    folder.make()
    write_lines(folder.plan, to_rows(prepared.plan))
    options = {one.name: to_json(getattr(prepared.options, one.name)) for one in fields(prepared.options)}
    write_manifest(
        folder,
        Manifest(
            format_version=FORMAT_VERSION,
            run_id=make_run_id(),
            started=now_text(),
            origin=prepared.options.origin,
            argv=argv,
            identity=prepared.identity,
            options=options,
            labels={
                "target": prepared.target_label,
                "guard": prepared.guard.name,
                "exhaustive": _exhaustive(prepared.guard),
                "self_judge": prepared.guard.self_judge or "",
            },
            policy=prepared.guard.text,
            lock={name: asdict(entry) for name, entry in prepared.lock.items()},
            plan_sha256=hash_file(folder.plan),
            planned=len(prepared.plan),
            environment=describe_environment(),
            tags=prepared.options.tags,
        ),
    )
    return folder


def _exhaustive(guard: Guard) -> str:
    if not guard.policies():
        return "unknown"  # a running proxy's own policy
    return "yes" if guard.exhaustive else "no"


def check_same(folder: RunFolder, prepared: Prepared) -> None:
    """Refuse to continue a run that was another one, field by field (H-116).

    Raises:
        ConfigError: what differs.
    """
    found = list(differences(read_manifest(folder).identity, prepared.identity))
    if found:
        lines = "\n  ".join(found)
        msg = f"{folder.path} is another run:\n  {lines}\nuse another --run-name, or --force-new to start anew"
        raise ConfigError(msg)


def check_reachable(prepared: Prepared) -> None:
    """Open one connection to the target and to the running proxy, and send nothing.

    Trials that lie in the cache ask for nothing: a run of only such needs no server.

    Raises:
        ConfigError: nobody listens there, before a trial is spent on it.
    """
    proxy, target = prepared.options.proxy, prepared.target
    arms = _arms_asked(prepared)
    asked = arms - {"check"} if proxy is None else arms & {"observed", "direct"}
    addresses = [proxy] if proxy is not None and arms & {"enforced", "check"} else []
    addresses += [target.base_url] if target.base_url is not None and asked else []
    for address in addresses:
        _connect(address)


def _arms_asked(prepared: Prepared) -> frozenset[str]:
    """Return the arms with a trial that is neither skipped nor in the cache."""
    cache = _cache_of(prepared.options)
    found: set[str] = set()
    for trial in prepared.plan:
        if trial.skip is None and trial.arm not in found and (cache is None or cache.get(trial) is None):
            found.add(trial.arm)
    return frozenset(found)


def _connect(address: str) -> None:
    parts = urlsplit(address)
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    try:
        where = _host_and_port(parts)
        socket.create_connection(where, _REACH_S).close()
    except ValueError as error:
        msg = f"{shown}: expected a URL with a host, such as http://127.0.0.1:8000"
        raise ConfigError(msg) from error
    except TimeoutError as error:
        msg = f"cannot reach {shown}: no connection within {_REACH_S:g} s; is the server up?"
        raise ConfigError(msg) from error
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        msg = f"cannot reach {shown}: {reason}; is the server up?"
        raise ConfigError(msg) from error


def _host_and_port(parts: SplitResult) -> tuple[str, int]:
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the caller of a run wants to see.

    Args:
        show: gets the state of the run now and then.
        started: gets the runner, to interrupt it.
        every_s: seconds between two calls of `show`.
        found: gets how many trials are planned and how many are left, when the run was started before.
        send: makes a trial instead of the target and the proxy, to measure the harness alone.
    """

    show: Callable[[JsonObject], None] = lambda _: None
    started: Callable[[Runner], None] = lambda _: None
    every_s: float = 10.0
    found: Callable[[int, int], None] = lambda _, __: None
    send: _Send | None = None


@dataclass(frozen=True, slots=True)
class _Run:
    """What the parts of a run share."""

    folder: RunFolder
    prepared: Prepared
    environ: Mapping[str, str]
    hooks: Hooks
    writer: Writer


async def carry_out(folder: RunFolder, prepared: Prepared, environ: Mapping[str, str], hooks: Hooks) -> Ending:
    """Start or continue a run and return how it ended; every result is on disk then.

    Raises:
        StoreError: the folder is in use, corrupt, or cannot be written.
        ConfigError: the target or the proxy cannot be started.
    """
    with folder.locked() as taken:
        if hash_file(folder.plan) != read_manifest(folder).plan_sha256:
            msg = f"{folder.plan} is not the plan the run was started with; `evals verify` says more"
            raise StoreError(msg)
        plan = read_plan(folder.plan)
        counting, used = Counting(plan.keys), Used()
        journal = JournalFile(folder.journal, takers=(counting.take, used.take))
        try:
            todo = remaining(plan, counting.counted(journal.lines))
            if journal.lines:
                hooks.found(len(plan), len(todo))
            writer = Writer(journal, folder, keep_texts=not prepared.options.hash_only)
            run = _Run(folder, prepared, environ, hooks, writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(writer.run())
                try:
                    await writer.put(*opening(folder, journal, taken))
                    return await _carry_out(run, used, todo)
                finally:
                    await writer.close()
        except BaseExceptionGroup as failures:
            expected = _find_expected(failures)
            if expected is None:
                raise
            raise expected from failures
        finally:
            journal.close()


def _find_expected(failures: BaseExceptionGroup[BaseException]) -> ConfigError | StoreError | None:
    """Return the error a user is told about, None when something else went wrong too."""
    found, rest = failures.split((ConfigError, StoreError))
    error: BaseException | None = found if rest is None else None
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, ConfigError | StoreError) else None


async def _carry_out(run: _Run, used: Used, todo: Sequence[PlannedTrial]) -> Ending:
    counts = Counts(len(todo), cost=used.cost, tokens=used.tokens)
    ending: Ending = await _make(run, counts, todo) if todo else "done"
    if ending in ("interrupted", "budget"):
        await run.writer.put(Entry("interrupt" if ending == "interrupted" else "budget_stop", {"done": counts.done}))
    await run.writer.put(Entry("run_end", {"ending": ending, "done": counts.done, "errors": counts.errors}))
    return ending


def opening(folder: RunFolder, journal: JournalFile, taken: str | None) -> list[Entry]:
    """Return the first lines of a start: the hashes of manifest and plan, and what was found."""
    proof: JsonObject = {"manifest_sha256": hash_file(folder.manifest), "plan_sha256": hash_file(folder.plan)}
    entries = [Entry("resume" if journal.lines else "run_start", proof)]
    if journal.torn_bytes:
        entries.append(Entry("note", {"text": f"an incomplete last line of {journal.torn_bytes} bytes was cut off"}))
    if taken is not None:
        entries.append(Entry("note", {"text": taken}))
    return entries


async def _make(run: _Run, counts: Counts, todo: Sequence[PlannedTrial]) -> Ending:
    options = run.prepared.options
    if run.hooks.send is not None:
        alone = Runner(run.hooks.send, run.writer, _limiter(run.prepared), options.limits, counts)
        return await _run_trials(run, alone, todo)
    async with HttpClient(TransportLimits(max_connections=_POOL)) as client, _addresses(run) as addresses:
        caller = Caller(client, options.max_retries, options.timeout_s)
        sender = Sender(
            caller=caller,
            addresses=addresses,
            items=run.prepared.items,
            guard=run.prepared.guard,
            composition=options.composition,
            sampling=options.sampling,
            prices=prices_of(run.prepared.guard, run.prepared.target.price, proxied=options.proxy is not None),
            proxied=options.proxy is not None,
        )
        send = _through_cache(options, sender.send)
        runner = Runner(send, run.writer, _limiter(run.prepared), options.limits, counts)
        caller.overloaded, caller.settling = runner.overloaded, runner.settling
        if options.proxy is not None:  # a running proxy has its own /metrics, with everybody's traffic in it
            return await _run_trials(run, runner, todo)
        async with asyncio.TaskGroup() as group:
            keeping = group.create_task(keep_metrics_while(client, addresses, run.folder.path, run.hooks.every_s))
            try:
                return await _run_trials(run, runner, todo)
            finally:
                keeping.cancel()
                await keep_metrics(client, addresses, run.folder.path)


def _cache_of(options: RunOptions) -> Cache | None:
    return None if options.cache is None else Cache(Path(options.cache), keep_texts=not options.hash_only)


def _through_cache(options: RunOptions, send: _Send) -> _Send:
    """Return what makes a trial: from the cache when the run has one and it is there."""
    cache = _cache_of(options)
    return send if cache is None else cache.through(send)


async def _run_trials(run: _Run, runner: Runner, todo: Sequence[PlannedTrial]) -> Ending:
    run.hooks.started(runner)
    async with asyncio.TaskGroup() as group:
        showing = group.create_task(tick(runner, _show(run), run.hooks.every_s))
        try:
            return await runner.run(todo)
        finally:
            showing.cancel()
            _show(run)(snapshot(runner))


def _show(run: _Run) -> Callable[[JsonObject], None]:
    def show(state: JsonObject) -> None:
        write_json(run.folder.progress, state)
        run.hooks.show(state)

    return show


def _limiter(prepared: Prepared) -> Limiter:
    wanted = prepared.options.concurrency
    if wanted is not None:
        return fixed(wanted)
    return fixed(LOCAL_SLOTS) if prepared.target.kind == "local" and prepared.options.arms is None else Limiter()


@asynccontextmanager
async def _addresses(run: _Run) -> AsyncGenerator[Mapping[str, Address]]:
    """Start what the arms of the plan need; yields arm → address."""
    prepared, options = run.prepared, run.prepared.options
    arms = {trial.arm for trial in prepared.plan}
    async with AsyncExitStack() as stack:
        target = Address("http://127.0.0.1:9/v1")
        if arms & {"observed", "direct"} or ("enforced" in arms and options.proxy is None):
            target = await stack.enter_async_context(_open_target(run))
        if prepared.target.price is not None:  # of what a self-judge asks
            target = replace(target, price=(prepared.target.price.input, prepared.target.price.output))
        found: dict[str, Address] = {"direct": target}
        if options.proxy is not None:
            key = run.environ.get(options.proxy_key_env) if options.proxy_key_env else None
            found |= dict.fromkeys(("enforced", "check"), Address(f"{options.proxy.rstrip('/')}/v1", key))
            yield found
            return
        models = prepared.target.models
        for arm in sorted(arms - {"direct"}):
            journal = run.folder.proxy_journal.with_stem(f"proxy-{arm}")
            observe = arm == "observed"
            served = open_proxy(prepared.guard, models, target, journal, observe=observe)
            found[arm] = await stack.enter_async_context(served)
        yield found


@asynccontextmanager
async def _open_target(run: _Run) -> AsyncGenerator[Address]:
    target, key_name = run.prepared.target, run.prepared.options.api_key_env
    app: App
    match target.kind:
        case "url":
            yield Address(str(target.base_url), run.environ.get(key_name) if key_name else None)
            return
        case "local":
            async with open_local() as address:
                yield address
            return
        case "fake":
            app = FakeModel(target.fake)
        case "recorded":
            app = Recorded(target.replies)
    async with serve(app) as url:
        yield Address(f"{url}/v1")
