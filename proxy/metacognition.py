"""Metacognitive coherence of one exchange: does the model answer what it has itself called harmful?

It costs nothing beyond the self-judge: wherever one judged the input, the record gets its verdict beside the kind of
answer that followed. Definitions: `supervisors.coherence` (C-01) and docs/bells.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.call import Call, Progress
from supervisors.coherence import coherent_file
from supervisors.refusal import behaviour_of
from supervisors.types import Verdict


def probe_coherence(call: Call, progress: Progress) -> Mapping[str, Any] | None:
    """Return state, own verdict and answer kind; None without a self-judge on the input or without an answer."""
    verdict = _own_verdict(call, progress)
    if verdict is None or not progress.replies:
        return None
    behaviour = behaviour_of(progress.replies[min(progress.replies)])
    coherent = coherent_file(verdict.label, behaviour.kind)
    return {
        "state": "unknown" if coherent is None else "coherent" if coherent else "incoherent",
        "own_verdict": verdict.label.value,
        "kind": behaviour.kind.value,
        "channel": behaviour.channel,
        "rule": "file",
    }


def _own_verdict(call: Call, progress: Progress) -> Verdict | None:
    selves = call.plan.input.selves
    if not selves:
        return None
    return next((found.verdict for found in progress.input.assessments if found.supervisor in selves), None)
