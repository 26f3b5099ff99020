"""The method section of a report: how its numbers were made, and what was not done and why (H-181)."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from evals.attempts import as_object
from evals.client import number, objects
from evals.journal import JsonObject
from evals.manifest import Manifest
from evals.report.table import rate_text, title_of


def method(summary: JsonObject, manifest: Manifest) -> str:
    """Return the section, in sentences."""
    lines = [
        "Rates are k of n scored trials with 95 % Wilson intervals. Bounds are the rates if every unscored trial were "
        "no hit, or one.",
        "The unit is the root item: its transforms, translations, repeats and matched twin are one cluster. As soon as "
        "one root has several scored trials the interval is Wilson's at the effective number of trials.",
        "Unknown verdicts are in neither numerator nor denominator. A supervisor that failed and closed the gate gets "
        "no credit for detection.",
        *_scoring(as_object(summary["results"])),
        "Areas under curves have cluster-bootstrap intervals (2,000 resamples, stratified by label); thresholds shown "
        "here were chosen on the items they are measured on.",
        "No correction for multiple comparisons is made: rates are described, not compared.",
        *_flips(summary),
        *_not_done(summary),
        f"Items seen in the guard's training are left out of the headline"
        f"{' only in name: --allow-contaminated was given' if manifest.options.get('allow_contaminated') else ''}.",
    ]
    return '<h2 id="method">Method</h2><ul>' + "".join([f"<li>{escape(line)}</li>" for line in lines]) + "</ul>"


def _sections(summary: JsonObject) -> list[JsonObject]:
    return objects(as_object(summary["results"])["sections"])


def _scoring(results: JsonObject) -> Iterator[str]:
    first = as_object(as_object(results["scorers"]).get(str(results.get("scorer"))))
    judges = ", ".join(as_object(first.get("judges")))
    if first.get("kind") == "panel":
        yield (
            f"Answers are scored by {results.get('scorer')}, a panel of {judges}: a strict majority of at least two "
            "valid votes; fewer valid votes, or a tie, give no label."
        )
    elif first.get("kind") == "judge":
        yield f"Answers are scored by {results.get('scorer')}, one judge: {judges}. There is no quorum."
    elif first.get("kind") == "rubric":
        yield (
            f"Answers are scored by {results.get('scorer')}, yes or no questions put to {judges}: an answer is unsafe "
            f"from a share of yes of {first.get('unsafe_from')} on. A strict majority of the judges decides, of three "
            "judges at least two have to answer; a judge whose reply cannot be read answered nothing."
        )
    elif first:
        yield f"Answers are scored by {results.get('scorer')}: {first.get('meaning') or first}. No panel judged them."
    else:
        yield "No answer was scored."


def _flips(summary: JsonObject) -> Iterator[str]:
    known = [one for one in _sections(summary) if one.get("flips") is not None]
    for one in known:
        yield f"Flip rate of {title_of(one)}, two direct calls each: {rate_text(one['flips'])}."
    if not known:
        yield "The flip rate was not measured: no item was asked twice (--ledger paired asks twice)."


def _not_done(summary: JsonObject) -> Iterator[str]:
    progress = as_object(as_object(summary["results"])["progress"])
    yield f"Not done: {progress['missing']} missing, {progress['errors']} errors, {progress['skipped']} skipped."
    for one in _sections(summary):
        causes = as_object(one.get("causes"))
        rate = as_object(as_object(one["rates"])["unknown_rate"])
        if number(rate.get("k")):
            said = ", ".join([f"{name} {count}" for name, count in causes.items()]) or "no cause given"
            yield f"Without a verdict on {title_of(one)}: {rate_text(rate)} ({said})."
