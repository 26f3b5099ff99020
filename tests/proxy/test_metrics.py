"""The Prometheus families: what is counted from a record, bounded labels, and a consistent scrape."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from proxy.counting import BUCKETS
from proxy.metrics import Metrics, read_exposition
from proxy.policy import Decision
from proxy.record import SHADOW_DROPPED, ClientEnd, JudgedBy, Record, UpstreamCall
from proxy.store.rules import Labels
from proxy.store.testing import ARCHIVE, VERSION, MemoryJournal, record, varied
from supervisors.errors import StoreError
from supervisors.types import Assessment, Cause, Label, Tokens, Verdict, safe, unknown, unsafe
from tests.timing import PATIENCE_S, assert_cost

ROUTE = "/v1/chat/completions"


def metrics() -> Metrics:
    return Metrics(VERSION, ARCHIVE.labels)


def samples(shown: Metrics) -> dict[str, float]:
    """Return every sample as the text shows it, without HELP and TYPE."""
    lines = [line for line in shown.render().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in [line.rpartition(" ") for line in lines]}


def judged(name: str, verdict: Verdict, *, enforce: bool = True, late_spans: int = 0) -> JudgedBy:
    return JudgedBy(Assessment(name, verdict, 0.002), "input", None, enforce, late_spans)


def test_one_record_raises_each_counter_of_the_table() -> None:  # operations §5
    shown = metrics()
    panel = Verdict(
        Label.UNKNOWN,
        Cause.UNPARSABLE,
        detail="quorum_miss",
        tokens=Tokens(30, 3),
        members=(
            Assessment("a", unknown(Cause.UNPARSABLE), 0.1),
            Assessment("b", replace(unsafe("canary"), extras={"repaired": True}), 0.1),
        ),
    )
    shown.count(
        replace(
            record(1),
            stream=True,
            outcome="cancelled",
            verdicts=(
                judged("rules", safe(), late_spans=2),
                judged("panel", panel),
                judged("panel/c", unknown(Cause.SKIPPED, detail=SHADOW_DROPPED), enforce=False),
            ),
            decisions=(
                Decision(
                    "default", "input", None, Label.UNKNOWN, Cause.UNPARSABLE, True, True, False, "block", "unknown"
                ),
            ),
            coherence={"state": "incoherent"},
            client=ClientEnd(499, cancelled_phase="streaming"),
            upstream_call=UpstreamCall(True, 504, 2.0, 0.3, 1, error_kind="timeout"),
        )
    )
    found = samples(shown)
    for name in (
        'guardrail_exchanges_total{kind="exchange",model="small",outcome="cancelled"}',
        'guardrail_verdicts_total{cause="none",label="safe",mode="enforce",stage="input",supervisor="rules"}',
        'guardrail_verdicts_total{cause="unparsable",label="unknown",mode="enforce",stage="input",supervisor="panel"}',
        'guardrail_verdicts_total{cause="unparsable",label="unknown",mode="enforce",stage="input",supervisor="panel/a"}',
        'guardrail_verdicts_total{cause="none",label="unsafe",mode="enforce",stage="input",supervisor="panel/b"}',
        'guardrail_verdicts_total{cause="skipped",label="unknown",mode="shadow",stage="input",supervisor="panel/c"}',
        'guardrail_decisions_total{action="block",mode="enforce",policy="default",reason="unknown",stage="input"}',
        'guardrail_judge_parse_failures_total{supervisor="panel/a"}',
        'guardrail_judge_repairs_total{supervisor="panel/b"}',
        'guardrail_vote_outcomes_total{outcome="quorum_miss",panel="panel"}',
        'guardrail_shadow_dropped_total{supervisor="panel/c"}',
        'guardrail_coherence_total{model="small",state="incoherent"}',
        'proxy_client_cancelled_total{phase="streaming"}',
        'proxy_upstream_errors_total{kind="timeout",upstream="local"}',
        'guardrail_supervisor_seconds_count{stage="input",supervisor="panel/a"}',
        'guardrail_stage_seconds_count{mode="enforce",stage="input"}',
        f'guardrail_overhead_seconds_count{{route="{ROUTE}",stream="true"}}',
        'guardrail_stream_holdback_seconds_count{mode="enforce"}',
        'proxy_upstream_seconds_count{model="small",upstream="local"}',
        'proxy_upstream_first_token_seconds_count{model="small",upstream="local"}',
        "guardrail_records_total",
    ):
        assert found[name] == 1, name
    assert found['guardrail_late_spans_total{supervisor="rules"}'] == 2
    assert found['guardrail_tokens_total{direction="input",supervisor="panel"}'] == 30
    assert found['guardrail_tokens_total{direction="output",supervisor="upstream"}'] == 5


def test_everything_that_is_not_from_a_record_is_shown_too() -> None:
    shown = metrics()
    journal = MemoryJournal(counted=shown.count, lost=3, backlog=7)
    shown.watch(journal)
    journal.accept(replace(record(), kind="unguarded"))
    shown.count_request(ROUTE, 200)
    shown.count_request("/etc/passwd", 404)
    shown.count_reload(applied=True)
    shown.count_reload(applied=False)
    shown.count_cache("rules", "miss")
    shown.set_in_flight("requests", 4)
    shown.set_queue_depth("requests", 2)
    shown.set_breaker("local", "open")
    found = samples(shown)
    expected = {
        f'guardrail_unguarded_requests_total{{route="{ROUTE}"}}': 1,
        f'proxy_requests_total{{code="200",route="{ROUTE}"}}': 1,
        'proxy_requests_total{code="404",route="other"}': 1,
        'config_reload_total{result="applied"}': 1,
        'config_reload_total{result="rejected"}': 1,
        'guardrail_cache_total{result="miss",supervisor="rules"}': 1,
        'proxy_in_flight{limiter="requests"}': 4,
        'proxy_queue_depth{limiter="requests"}': 2,
        'guardrail_breaker_state{dependency="local"}': 2,
        f'config_info{{version="{VERSION[:12]}"}}': 1,
        "guardrail_records_lost_total": 3,
        "guardrail_store_backlog": 7,
        "guardrail_records_accepted_total": 11,
        "guardrail_store_failing": 0,
    }
    assert {name: found[name] for name in expected} == expected
    assert read_exposition(shown.render().decode()).boot == "memory"


def test_names_that_no_config_declares_add_no_series() -> None:  # O-17, L-06
    shown = metrics()
    known, odd = record(1), "violet\numbrella"

    def strange(number: int) -> Record:
        name = f"{odd}{number}"
        return replace(
            known,
            model=name,
            route=f"/{name}",
            upstream=name,
            kind="unguarded",
            verdicts=(judged(name, Verdict(Label.SAFE, members=(Assessment(name, safe()),), tokens=Tokens(1, 1))),),
            decisions=(replace(known.decisions[0], policy=name),),
            coherence={"state": name},
        )

    shown.count(strange(0))
    before = len(samples(shown))
    for number in range(1, 10_000):
        shown.count(strange(number))
    assert len(samples(shown)) == before
    assert "violet" not in shown.render().decode()
    assert samples(shown)['guardrail_exchanges_total{kind="unguarded",model="other",outcome="answered"}'] == 10_000


def test_a_busy_proxy_shows_fewer_than_500_series_beside_histogram_buckets() -> None:  # O-17
    shown = metrics()
    for number in range(2000):
        shown.count(varied(number))
    names = samples(shown)
    assert 50 < len([name for name in names if "_bucket{" not in name]) < 500


def test_a_reload_keeps_the_totals_and_old_records_keep_their_names() -> None:  # O-05, L-10
    shown = metrics()
    shown.count(record(1))
    shown.declare("f" * 64, Labels(models=frozenset({"tiny"})))
    shown.count(record(2))  # began before the reload
    shown.count(replace(record(4), version="f" * 64, model="tiny"))
    found = samples(shown)
    assert found['guardrail_exchanges_total{kind="exchange",model="small",outcome="answered"}'] == 2
    assert found['guardrail_exchanges_total{kind="exchange",model="tiny",outcome="answered"}'] == 1
    assert found['config_info{version="ffffffffffff"}'] == 1


def test_buckets_are_those_of_the_table_and_cumulative() -> None:
    shown = metrics()
    for seconds in (0.001, 0.0011, 40.0):
        shown.count(replace(record(2), overhead_s=seconds))
    series = 'guardrail_overhead_seconds_bucket{le="%s",route="/v1/chat/completions",stream="false"}'
    found = samples(shown)
    assert [found[series % bound] for bound in BUCKETS] == [1, *[2] * 13]
    assert found[series % "+Inf"] == 3


def test_a_stage_that_two_policies_share_is_timed_once() -> None:  # O-12
    shown = metrics()
    one = replace(record(2).decisions[0], seconds=0.02)
    shown.count(replace(record(2), decisions=(one, replace(one, policy="second"))))
    assert samples(shown)['guardrail_stage_seconds_count{mode="enforce",stage="input"}'] == 1


def test_late_spans_that_nobody_owns_still_ring() -> None:
    shown = metrics()
    late = replace(record(2).decisions[0], late_spans=3)
    shown.count(replace(record(2), decisions=(late, late)))
    assert samples(shown)['guardrail_late_spans_total{supervisor="other"}'] == 3


def test_what_an_alarm_waits_for_is_there_before_it_happens() -> None:
    shown = metrics()
    shown.declare("f" * 64, Labels(routes=frozenset({"/v1/files"})), ["/v1/files"])
    found = samples(shown)  # `increase` of a series that begins at 1 is 0
    assert found['guardrail_late_spans_total{supervisor="other"}'] == 0
    assert found['guardrail_unguarded_requests_total{route="/v1/files"}'] == 0


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 4, "output_tokens": 2}, (4, 2)),
        ({"prompt_tokens": 4, "completion_tokens": None}, (4, None)),
        ({"prompt_tokens": True, "completion_tokens": -1}, (None, None)),
        ({"prompt_tokens": "12", "completion_tokens": 10**30}, (None, None)),
    ],
)
def test_odd_usage_is_left_out(usage: dict[str, object], tokens: tuple[int | None, int | None]) -> None:
    shown = metrics()
    shown.count(replace(record(), usage=usage))
    found = samples(shown)
    series = [f'guardrail_tokens_total{{direction="{name}",supervisor="upstream"}}' for name in ("input", "output")]
    assert (found.get(series[0]), found.get(series[1])) == tokens


def test_agreement_of_a_panel_over_its_window() -> None:  # G-32
    shown = metrics()

    def vote(one: bool, other: bool) -> Record:
        members = tuple(
            [Assessment(name, unsafe("canary") if flag else safe()) for name, flag in (("a", one), ("b", other))]
        )
        return replace(record(), verdicts=(judged("panel", Verdict(Label.SAFE, members=members)),))

    # Cohen's textbook table: 20 both yes, 15 both no, 5 and 10 split: agreement 0.7, kappa 0.4.
    for number, pair in ((20, (True, True)), (5, (True, False)), (10, (False, True)), (15, (False, False))):
        for _ in range(number):
            shown.count(vote(*pair))
    found = samples(shown)
    assert found['guardrail_vote_agreement{panel="panel",statistic="pairwise"}'] == pytest.approx(0.7)
    assert found['guardrail_vote_agreement{panel="panel",statistic="kappa"}'] == pytest.approx(0.4)
    for _ in range(1000):
        shown.count(vote(one=False, other=False))
    found = samples(shown)
    assert found['guardrail_vote_agreement{panel="panel",statistic="pairwise"}'] == 1
    assert 'guardrail_vote_agreement{panel="panel",statistic="kappa"}' not in found


def test_a_scrape_in_the_middle_of_the_load_is_a_consistent_cut() -> None:  # §4.3
    shown = metrics()
    records = [record(number) for number in range(4000)]
    done = threading.Event()

    def load() -> None:
        for one in records:
            shown.count(one)
        done.set()

    worker = threading.Thread(target=load)
    worker.start()
    cuts: list[tuple[float, float, float]] = []
    while not done.is_set() or not cuts:
        found = samples(shown)
        exchanges = sum([value for name, value in found.items() if name.startswith("guardrail_exchanges_total")])
        verdicts = sum([value for name, value in found.items() if name.startswith("guardrail_verdicts_total")])
        cuts.append((found["guardrail_records_total"], exchanges, verdicts))
    worker.join(PATIENCE_S)
    assert [cut for cut in cuts if not cut[1] == cut[0] == cut[2] / 10] == []


def test_text_that_is_no_exposition_is_refused() -> None:
    with pytest.raises(StoreError, match="not Prometheus text"):
        read_exposition("<html>{")


def test_counting_a_record_with_six_verdicts_costs_microseconds() -> None:  # PF-30
    shown = metrics()
    verdicts = tuple([judged(f"panel/{name}", safe()) for name in "abcabc"])
    one = replace(record(2), verdicts=verdicts)

    def count_twenty() -> None:
        for _ in range(20):
            shown.count(one)

    count_twenty()
    assert_cost(count_twenty, 10)
