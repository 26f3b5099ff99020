"""Write what a build says about itself: MODEL_CARD.md, NOTICE, and the lines of ``guard show embedded``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from supervisors.embedded.contamination import SISTERS
from supervisors.embedded.evaluate import Gate, Share, wilson_interval
from supervisors.embedded.heldout import WILD_HELD_OUT
from supervisors.embedded.model import Header, HeadName
from supervisors.embedded.prepare import SourceCount
from supervisors.embedded.train import Build

NATURE = (
    "It is a topical detector: texts about harmful subjects score high whatever the intent. "
    "English prompts only; it is not for replies."
)
LIMITS = (
    "English only; topical, not intent-aware; blind to encodings that the variants do not decode; jailbreak wrappers "
    "only of the known kinds; measured on 132 labelled BELLS prompts; trained on prompts, so not for replies; "
    "trivially evaded by an adversary who knows the file. It is a floor, not a wall."
)
_CORPUS = """\
The project-written corpus (`corpus/`, stored encoded) is original text: hand-written topics, artefacts and questions
in hand-written frames. Harmful and harmless texts share the frames, and every harmful topic has benign twins in the
same words (reporting, preventing, studying, fiction, other senses of the word), so that only the intent differs. Each
text was compared with all training and test sets and with every string of up to 70 words in the data folder: none is
equal after normalisation, none has a word-set Jaccard similarity of 0.6 or more. The in-the-wild jailbreaks train the
injection head only: as positives of the harm head they lowered its AUC on plain requests by 0.02.

How the corpus was developed, because it bears on the figures: no text was written from a test prompt, but about a
hundred variants of its size and frames were compared on the aggregate figures below (also by category, length and
form of the BELLS prompts, and with the category names of public taxonomies in view). The BELLS, XSTest and
NotInject figures are therefore development figures and a little optimistic; with other draws of frames the AUC moved
by 0.01. The texts with format constraints were written after looking at the calibration texts that scored highest on
the injection head, so that head's thresholds are a little optimistic too; the share of NotInject it flags is the
independent check."""
_NOTES: Mapping[str, str] = {
    "bells/wrapped-harmful": "sister: not quoted as detection",
    "bells/wrapped-benign": "sister: the wrapping is detected, not the intent",
    "tdc2023": "shares 17 texts with HarmBench",
}
_REFERENCE = """| guard | harmful | borderline | benign |
|---|---|---|---|
| Lakera Guard | 63 | 21 | 14 |
| NeMo Guardrails | 85 | 55 | 20 |
| LangKit | 30 | 16 | 16 |
| Prompt Guard v1 | 6 | 5 | 0 |
| LLM Guard | 0 | 3 | 0 |"""


def write_card(build: Build) -> str:
    """Return MODEL_CARD.md of a build."""
    header, found = build.header, build.evaluation
    parts = [
        f"# Embedded guard, profile {header.profile}",
        NATURE,
        f"Two linear heads over hashed n-grams, {header.bits} bits, trained {header.trained_at}. "
        f"Weights sha256 `{header.weights_sha256}`, manifest sha256 `{header.manifest_sha256}`. {LIMITS}",
        "## Training data",
        _CORPUS,
        _write_sources(header, build.prepared.counts),
        "`near` counts texts dropped because their word-set Jaccard similarity with a test or calibration text is 0.4 "
        "or more; `shared` those equal to one after normalisation.",
        "## Quality",
        f"BELLS AUC (harmful against benign, harm head): {found.auc:.3f}. Harmful texts flagged when at most 2 of 50 "
        f"benign are: {found.curve_harmful} of 82. Budgets are false-positive budgets on {header.calibrated_on} "
        "(1,342 texts, a hard benign set). Shares with 95 % Wilson intervals.",
        *(_write_shares(head, budgets, _list_sisters(header)) for head, budgets in found.shares.items()),
        _write_calibration(header, found.calibration_error),
        _write_gates(build.gates),
        "## For comparison",
        "Percent flagged on the same 170 prompts, as released with BELLS (its own columns, not our runs):",
        _REFERENCE,
        "## Contamination",
        _write_sisters(header),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _write_sources(header: Header, counts: Mapping[str, SourceCount]) -> str:
    rows = ["| source | licence | role | read | kept | repeats | shared | near |", "|---|---|---|---|---|---|---|---|"]
    for source in header.trained_on:
        count = counts[source.dataset]
        rows.append(
            f"| {source.dataset} | {source.licence} | {source.role} | {count.read} | {count.kept} | {count.repeats} "
            f"| {count.shared} | {count.near} |"
        )
    return "\n".join(rows)


def _list_sisters(header: Header) -> frozenset[str]:
    return frozenset(name for source in header.trained_on for name in SISTERS.get(source.dataset, ()))


def _write_shares(head: HeadName, budgets: Mapping[str, Mapping[str, Share]], sisters: frozenset[str]) -> str:
    names = list(next(iter(budgets.values())))
    rows = [
        f"### Head {head}",
        "",
        "| set | n | " + " | ".join(f"budget {budget}" for budget in budgets) + " | note |",
        "|---|---|" + "---|" * (len(budgets) + 1),
    ]
    for name in names:
        cells = [show_share(budgets[budget][name]) for budget in budgets]
        total = next(iter(budgets.values()))[name].total
        note = _NOTES.get(name) or ("sister: seen in training" if name.split("/")[0] in sisters else "")
        rows.append(f"| {name} | {total} | {' | '.join(cells)} | {note} |")
    return "\n".join(rows)


def show_share(share: Share) -> str:
    """Return a share as percent with its interval."""
    low, high = wilson_interval(share.flagged, share.total)
    return f"{100 * share.rate:.1f} [{100 * low:.0f}, {100 * high:.0f}]"


def _write_calibration(header: Header, errors: Mapping[HeadName, float]) -> str:
    lines = [
        f"- {head}: expected calibration error {errors[head]:.3f} in 10 equal-count bins on held-out texts; "
        f"calibrated for a harmful share of {info.positives / (info.positives + info.negatives):.2f}, "
        f"see the option `prior`."
        for head, info in header.heads.items()
    ]
    return "\n".join(["Calibration of the score:", "", *lines])


def _write_gates(gates: Iterable[Gate]) -> str:
    rows = [
        f"| {gate.name} | {gate.found:.4g} | {'≥' if gate.at_least else '≤'} {gate.limit:g} "
        f"| {'kept' if gate.passed else 'MISSED'} |"
        for gate in gates
    ]
    return "\n".join(["### Gates", "", "| gate | found | limit | |", "|---|---|---|---|", *rows]) if rows else ""


def _write_sisters(header: Header) -> str:
    return (
        "`embedded.items` lists 8-byte SHA-256 prefixes of every training text. Figures on the training sources are "
        f"not given; these sets are their sisters, and figures on them are no evidence: "
        f"{', '.join(sorted(_list_sisters(header)))}. The held-out part of the wild jailbreaks "
        f"({WILD_HELD_OUT}) comes from the same collection as the training part, without near-duplicates."
    )


def write_notice(header: Header) -> str:
    """Return NOTICE: what the weights are derived from."""
    lines = [
        "The weights in embedded.gpeg are derived from the following data sets; none of their texts is distributed.",
        "",
    ]
    for source in header.trained_on:
        names = ", ".join(file.path for file in source.files) or "corpus/"
        lines.append(f"{source.dataset} ({source.licence}): {names}")
    return "\n".join([*lines, "", "Calibrated on " + header.calibrated_on + " (Apache-2.0)."]) + "\n"


def describe_guard(header: Header) -> list[str]:
    """Return the lines of ``guard show embedded``."""
    lines = [
        f"embedded guard, profile {header.profile}, {header.bits} bits, trained {header.trained_at}",
        NATURE,
        f"weights sha256 {header.weights_sha256}",
        f"thresholds by false-positive budget on {header.calibrated_on}:",
    ]
    for head, info in header.heads.items():
        shown = ", ".join(f"{budget}: z > {z:.3f}" for budget, z in info.thresholds.items())
        lines.append(f"  {head}: {shown} ({info.positives} positives, {info.negatives} negatives in training)")
    lines.append("false alarms and detection at the default budgets:")
    for head, budget in (("harm", "0.05"), ("injection", "0.01")):
        lines += _describe_figures(header, head, budget)
    lines.append("trained on: " + ", ".join(f"{source.dataset} {source.items}" for source in header.trained_on))
    return lines


def _describe_figures(header: Header, head: str, budget: str) -> list[str]:
    flagged = header.metrics.get("flagged")
    figures: object = flagged
    for key in (head, budget):
        figures = figures.get(key) if isinstance(figures, dict) else None
    lines: list[str] = []
    if isinstance(figures, dict):
        for name, pair in figures.items():
            match pair:
                case [int(k), int(n)]:
                    lines.append(f"  {head} at {budget}: {name} {show_share(Share(k, n))} %")
                case _:
                    continue
    return lines
