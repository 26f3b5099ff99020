from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from evals.exposition import with_labels
from tests.evals.harness import make_options, make_run

TEXT = """# HELP guardrail_verdicts_total Verdicts { in "words" }.
# TYPE guardrail_verdicts_total counter
guardrail_verdicts_total{supervisor="a b",label="x} y\\"z"} 3.0
guardrail_in_flight 0
"""


def _samples(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return found


def test_labels_are_added_and_nothing_else_changes() -> None:  # H-135
    run = 'my "run"\\'
    before, after = _samples(TEXT), _samples(with_labels(TEXT, {"run": run, "arm": "observed"}))
    assert before.keys() == after.keys()
    for name, samples in before.items():
        assert after[name] == [({"run": run, "arm": "observed", **labels}, value) for labels, value in samples]


@pytest.mark.parametrize(("ledger", "arms"), [("shadow", ["observed"]), ("paired", ["enforced"])])
def test_a_run_leaves_the_metrics_of_live_traffic_with_its_name(tmp_path: Path, ledger: str, arms: list[str]) -> None:
    """The names are those of the proxy's own /metrics, and the counts those of the run (H-135)."""
    run = make_run(tmp_path / "mine", make_options(tmp_path, ledger=ledger))
    files = sorted(tmp_path.glob("mine/metrics-*.prom"))
    assert [file.stem for file in files] == [f"metrics-{arm}" for arm in arms]
    samples = _samples(files[0].read_text("utf-8"))
    exchanges = samples["guardrail_exchanges_total"]
    assert sum([value for _, value in exchanges]) == len(run.prepared.items)
    assert {labels["run"] for labels, _ in exchanges} == {"mine"}
    flagged = [v for labels, v in samples["guardrail_verdicts_total"] if labels["label"] == "unsafe"]
    assert sum(flagged) == 5
