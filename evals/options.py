"""What a run is asked to do, as plain values: made by the command line, kept by the manifest, read by a resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pydantic import TypeAdapter, ValidationError

from evals.plan import Arm, Ledger
from evals.replay import Limits
from evals.selection import Selection
from evals.targets import Sampling
from supervisors.errors import StoreError


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Everything a run is asked to do; plain values, so that the manifest can hold them and a resume read them.

    Args:
        sets: data sets, by id or alias.
        target: as written.
        guard: policy file; None takes the built-in one.
        asked: the supervisors of it that are asked; none for all.
        arms: arms instead of the ledger's: ``check`` for supervisors alone.
        proxy: URL of a running proxy instead of one in this process.
        api_key_env, proxy_key_env: names of environment variables.
        price: US dollars for a million input and output tokens.
        concurrency: None adapts to what the server bears.
        hash_only: no text is written anywhere.
        allow_contaminated: headline numbers on data seen in the guard's training.
        transforms: every item also in these forms.
        shard: ``i/n``: only the trials of every n-th item, from the i-th on.
        origin: replay, direct, nessie, traces or journal.
        suite: which part of the suite or of the journal, or the file of traces, for these origins.
        cache: folder of finished trials that are not made again; None asks every time.
    """

    sets: tuple[str, ...]
    data_dir: str
    target: str = "fake"
    guard: str | None = None
    asked: tuple[str, ...] = ()
    ledger: Ledger = "shadow"
    arms: Arm | None = None
    selection: Selection = field(default_factory=Selection)
    sampling: Sampling = field(default_factory=Sampling)
    composition: str | None = None
    repeats: int = 1
    proxy: str | None = None
    api_key_env: str | None = None
    proxy_key_env: str | None = None
    price: tuple[float, float] | None = None
    allow_unpriced: bool = False
    concurrency: int | None = None
    timeout_s: float = 300.0
    max_retries: int = 5
    limits: Limits = field(default_factory=Limits)
    hash_only: bool = False
    accept_drift: bool = False
    allow_contaminated: bool = False
    origin: str = "replay"
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    shard: str | None = None
    transforms: tuple[str, ...] = ()
    suite: Mapping[str, str] = field(default_factory=dict[str, str])
    cache: str | None = None

    def with_suite(self, suite: Mapping[str, str], origin: str = "nessie") -> RunOptions:
        """Return the options of a run of a suite that is no data set: NESSiE, or a file of traces."""
        return replace(self, origin=origin, suite=suite)

    def with_journal(self, since: str | None, until: str | None, *, keep_texts: bool) -> RunOptions:
        """Return the options of a run over a proxy's journal: supervisors alone, hashes only unless asked otherwise."""
        return replace(
            self,
            origin="journal",
            arms="check",
            suite={"since": since or "", "until": until or ""},
            hash_only=not keep_texts,
            allow_contaminated=True,
        )

    def with_data_dir(self, folder: str) -> RunOptions:
        """Return the same options with the data in another folder."""
        return replace(self, data_dir=folder)

    def with_guard(self, policy: str) -> RunOptions:
        """Return the same options with another policy file."""
        return replace(self, guard=policy)


_OPTIONS = TypeAdapter(RunOptions)


def read_options(options: Mapping[str, object]) -> RunOptions:
    """Read the options a manifest holds.

    Raises:
        StoreError: they are of another version.
    """
    try:
        return _OPTIONS.validate_python(dict(options))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        msg = f"the run's options cannot be read: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise StoreError(msg) from error
