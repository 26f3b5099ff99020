"""Several workers as one exposition: counters of all there have been, gauges of the living (L-10)."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.counting import Family, Sample
from proxy.metrics import Metrics, read_exposition, render_families
from proxy.store.rules import Labels
from proxy.store.testing import ARCHIVE, VERSION, MemoryJournal, varied
from proxy.workers.merging import GAUGES, Snapshot, from_json, merge, to_json


def worker(boot: str, families: Sequence[Family], *, live: bool = True) -> Snapshot:
    return Snapshot(boot, 1, "f" * 64, 1, families, live)


def one(name: str, kind: str, value: float, **labels: str) -> Family:
    line = f"{name}_total" if kind == "counter" else name
    return Family(name, kind, "Help.", [Sample(line, tuple(labels.items()), value)])


def values(families: Sequence[Family]) -> dict[str, float]:
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_counters_of_the_dead_stay_and_their_gauges_go() -> None:  # L-10
    workers = [
        worker("a", [one("hits", "counter", 3), one("proxy_in_flight", "gauge", 2)]),
        worker("b", [one("hits", "counter", 4), one("proxy_in_flight", "gauge", 5)], live=False),
        worker("c", [one("hits", "counter", 5), one("proxy_in_flight", "gauge", 1)]),
    ]
    assert values(merge(workers)) == {"hits_total": 12, "proxy_in_flight": 3}


def test_each_gauge_has_a_rule_of_its_own() -> None:
    shown = {family.name for family in Metrics(VERSION, Labels()).families() if family.kind == "gauge"}
    assert shown == set(GAUGES)
    pair = [
        [one("guardrail_vote_agreement", "gauge", value), one("guardrail_store_failing", "gauge", value)]
        for value in (0.0, 1.0)
    ]
    merged = values(merge([worker("a", pair[0]), worker("b", pair[1])]))
    assert merged == {"guardrail_vote_agreement": 0.5, "guardrail_store_failing": 1.0}


def test_two_workers_show_what_one_would_that_had_seen_everything() -> None:  # L-10, §4.3
    records = [varied(number) for number in range(60)]
    parts: list[Snapshot] = []
    for boot, mine in (("a", records[:20]), ("b", records[20:]), ("all", records)):
        metrics = Metrics(VERSION, ARCHIVE.labels)
        metrics.watch(MemoryJournal(boot=boot))
        for record in mine:
            metrics.count(record)
        text = to_json(Snapshot(boot, 1, VERSION, len(mine), metrics.families()))
        parts.append(from_json(text, live=True))
    merged = read_exposition(render_families(merge(parts[:2]), {"a": 20, "b": 40}).decode())
    alone = read_exposition(render_families(parts[2].families, {"all": 60}).decode())
    assert merged.boots == {"a": 20, "b": 40}
    assert (merged.boot, alone.boot) == (None, "all")
    assert merged.samples.keys() == alone.samples.keys()
    for series, value in alone.samples.items():
        if series[0] not in GAUGES and "accepted" not in series[0]:
            assert abs(merged.samples[series] - value) < 1e-9, series
