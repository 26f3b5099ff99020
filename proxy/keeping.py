"""What of an exchange's text goes into its record, after redaction (O-25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from proxy.call import Kept, Progress
from proxy.record import Digest, JudgedBy, flatten, is_text_extra
from proxy.redact import mask, merge_spans
from proxy.stages import StageResult
from proxy.store.content import ContentMode, Texts, build_content, hide_keys, segments_hmac
from supervisors.types import Assessment, Segment

_SHORT_CHARS: Final = 2000
"""Texts up to this length may wait in the journal's queue for their digest: 20,000 of them are 40 MB."""


@dataclass(frozen=True, slots=True)
class Keeper:
    """Keep texts by mode and direction.

    Args:
        input: mode of the request's text.
        output: mode of the reply's text.
        secret: key of the digests.
    """

    input: ContentMode
    output: ContentMode
    secret: bytes

    def keep(self, progress: Progress) -> Kept:
        """Return digests and texts; whatever a supervisor marked is masked first, also when it was only logged."""
        sent = redact_segments(progress.request, [progress.input]) if self.input != "off" else ()
        replies = [segment for reply in progress.replies.values() for segment in reply]
        received = redact_segments(replies, progress.outputs) if self.output != "off" else ()
        content: Mapping[str, Any] | None = None
        if "full" in (self.input, self.output):
            texts = [Texts("input", self.input, sent), Texts("output", self.output, received)]
            content = {**(build_content(texts, self.secret) or {}), "replies": self._supervisor_replies(progress)}
        verdicts = [one.assessment.verdict for one in progress.verdicts]
        paths = [verdict for verdict in verdicts if verdict.spans or verdict.members]
        return Kept(
            self._digest(sent) if sent else None,
            self._digest(received) if received else None,
            content,
            tuple([self._without_keys(judged) for judged in progress.verdicts]) if paths else None,
        )

    def _digest(self, segments: Sequence[Segment]) -> Digest:
        """Return the digest of texts: of short ones when it is asked for, of others now, so that nothing long waits."""
        later = partial(segments_hmac, self.secret, segments)
        if sum([len(segment.text) for segment in segments]) <= _SHORT_CHARS:
            return later
        made = later()
        return lambda: made

    def _without_keys(self, judged: JudgedBy) -> JudgedBy:
        """Return a verdict whose spans show no keys that somebody chose: a path is never redacted."""
        mode = self.input if judged.stage == "input" else self.output
        found = judged.assessment
        if not (found.verdict.spans or found.verdict.members):
            return judged
        return replace(judged, assessment=self._hide(found, mode))

    def _hide(self, found: Assessment, mode: ContentMode) -> Assessment:
        verdict = found.verdict
        spans = tuple([replace(span, path=hide_keys(span.path, mode, self.secret)) for span in verdict.spans])
        members = tuple([self._hide(member, mode) for member in verdict.members])
        return replace(found, verdict=replace(verdict, spans=spans, members=members))

    def _supervisor_replies(self, progress: Progress) -> list[Mapping[str, Any]]:
        """Return what supervisors' models said, for stages whose text is kept in full."""
        kept = {"input": self.input == "full", "output": self.output == "full"}
        rows: list[Mapping[str, Any]] = []
        for name, judged, verdict in flatten(progress.verdicts):
            texts = {key: value for key, value in verdict.extras.items() if is_text_extra(key, value)}
            if texts and kept[judged.stage]:
                rows.append({"supervisor": name, "stage": judged.stage, "choice": judged.choice, **texts})
        return rows


def redact_segments(segments: Sequence[Segment], results: Sequence[StageResult]) -> Sequence[Segment]:
    """Return the segments with every span that a verdict of these results names masked."""
    found = [one.verdict.spans for result in results for one in result.assessments if one.verdict.spans]
    if not found:
        return segments
    marks = merge_spans([span for spans in found for span in spans])
    return tuple(
        [
            replace(segment, text=mask(segment.text, marks[segment.path])) if segment.path in marks else segment
            for segment in segments
        ]
    )
