"""What of an exchange's text goes into its record, after redaction (O-25)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from proxy.call import Kept, Progress
from proxy.redact import mask, merge_spans
from proxy.stages import StageResult
from proxy.store.content import ContentMode, Texts, build_content, segments_hmac
from supervisors.types import Segment


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
        texts = [Texts("input", self.input, sent), Texts("output", self.output, received)]
        return Kept(
            input_hmac=segments_hmac(self.secret, sent) if sent else None,
            output_hmac=segments_hmac(self.secret, received) if received else None,
            content=build_content(texts, self.secret) if "full" in (self.input, self.output) else None,
        )


def redact_segments(segments: Sequence[Segment], results: Sequence[StageResult]) -> tuple[Segment, ...]:
    """Return the segments with every span that a verdict of these results names masked."""
    marks = merge_spans([span for result in results for span in result.spans])
    if not marks:
        return tuple(segments)
    return tuple(
        [
            replace(segment, text=mask(segment.text, marks[segment.path])) if segment.path in marks else segment
            for segment in segments
        ]
    )
