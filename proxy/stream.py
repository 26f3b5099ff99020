"""The gate of one streamed choice: what may be released when. No I/O, no clock (guarding §7).

Frames go in as they come; text leaves only when every enforcing supervisor has covered it. `proxy.relay` does the
reading, asking and writing around it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from proxy.frontier import SENTENCE_ENDS, Field, clear_of_cuts, mask_piece
from proxy.passes import Group, Pass, group_supervisors, holdback_of, join_passes, shift_spans
from proxy.plan import StagePlan
from proxy.policy import Reason, judge_verdict
from proxy.readings import Readings, credit_of, mask_held
from proxy.redact import Mark, RedactionImpossible, marks_at, merge_spans
from proxy.windows import Reach, Texts, copied_text, judged_fields
from proxy.wire.adapter import Chunk, Frames, Piece
from proxy.wire.segments import JOINED
from supervisors.light import light_dataclass
from supervisors.types import Assessment, Cause, Label, Segment, Span, Supervisor, Verdict, unknown

_SENTENCE_CHARS: Final = 1000
_OVERLAP_CHARS: Final = 256
_AGAIN: Final = 8  # texts that may be read again for each new character: after many short ones a look waits for more
_SAFE, _SKIPPED = Label.SAFE, Cause.SKIPPED


@light_dataclass(frozen=True, slots=True)
class _Held:
    chunk: Chunk
    ends: tuple[int, ...]


@dataclass(slots=True)
class _Running:
    """What one supervisor has said so far."""

    supervisor: Supervisor
    verdict: Verdict | None = None
    seconds: float = 0.0
    passes: int = 0
    chars: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """Why a choice was blocked."""

    reason: Reason
    cause: Cause | None
    detail: str | None = None


class Gate:
    """Hold the frames of one choice and release them as verdicts cover their text.

    Args:
        plan: the output stage.
        frames: of this reply, for what leaves.
        choice: choice index.
        turn: turn number of the reply.
        as_json: the caller parses the text as JSON, so a redaction must leave it valid.
        goes_on: text may come after the finish, so the last verdict waits for the end of the stream.
    """

    def __init__(
        self, plan: StagePlan, frames: Frames, choice: int, turn: int, *, as_json: bool = False, goes_on: bool = False
    ) -> None:
        self._plan = plan
        self._goes_on = goes_on
        self._as_json = as_json
        self._rewritten: dict[str, str] = {}
        self._frames = frames
        self._choice = choice
        self._turn = turn
        self._mode = plan.stream.mode
        self._texts = Texts()
        self._fields = self._texts.fields
        self._held: deque[_Held] = deque()
        self._held_bytes = 0
        self._running = {name: _Running(supervisor) for name, supervisor in plan.blocking}
        self._groups = group_supervisors(plan)
        self._next_growth = plan.stream.window_chars
        self._holdback = max([holdback_of(supervisor) for _, supervisor in self._groups["window"]], default=0)
        asked = plan.stream.overlap_chars
        overlap = max(_OVERLAP_CHARS, self._holdback) if asked is None else asked
        self._reach = Reach(overlap, self._holdback, self._groups["window"])
        # A window shorter than its overlap would judge every character several times (S-02).
        self._window = max(plan.stream.window_chars, self._holdback)
        self._total = 0
        self._new = self._seen = 0
        self._sentence = False
        self._unsettled = False
        self._settle = False
        self._marks: dict[str, list[Mark]] = {}
        self._spans: list[Span] = []
        self._stripped: set[str] = set()
        self._final = not plan.blocking
        self.finish: str | None = None
        self.block: Block | None = None
        self.released_any = False
        self.emptied = False
        self.late_spans = 0

    @property
    def closed(self) -> bool:
        """Say whether the choice has ended: blocked, or finished with everything judged and released."""
        return self.block is not None or (self.finish is not None and self._final and not self._held)

    @property
    def judged(self) -> bool:
        """Say whether everything received so far has had its final verdict."""
        return self._final

    @property
    def holding(self) -> bool:
        """Say whether the caller sees less than has come: text waits for a verdict, or was redacted away."""
        return bool(self._held) or self.emptied

    def push(self, chunk: Chunk) -> None:
        """Take one frame of this choice."""
        if self.block is not None:
            return
        ends = [self._take(piece, chunk.part) for piece in chunk.pieces]
        for name in chunk.ends:
            self._end(name)
        if chunk.pieces and self._plan.blocking:
            self._final = False
        if chunk.finish is not None:
            self.finish = chunk.finish
        self._held.append(_Held(chunk, tuple(ends)))
        self._held_bytes += len(chunk.raw)
        if self._held_bytes > self._plan.stream.max_buffer_bytes and self._mode != "observe":
            self._overflow()

    def _take(self, piece: Piece, part: str) -> int:
        """Add a piece to its field and return where it ends there."""
        grown = self._fields.get(piece.field)
        if grown is None or grown.settled:
            grown = self._texts.find(piece, part, redacts=self._plan.redacts)
        if piece.alone:
            grown.cut()
        if not piece.repeats:
            self._grow(grown, copied_text(self._fields, piece) if piece.copies else piece.text)
        if piece.alone:
            grown.cut()
        if not piece.at:
            grown.fixed = True
        return grown.length

    def watch(self, chunk: Chunk) -> None:
        """Take note of a frame that has left already: shadow supervisors judge the whole text later."""
        for piece in chunk.pieces:
            self._take(piece, chunk.part)

    def _grow(self, grown: Field, text: str) -> None:
        grown.grow(text)
        self._settle = self._unsettled
        if grown.whole:
            self._seen -= len(text)
            return
        self._total += len(text)
        self._new += len(text)
        if self._mode == "sentence" and not self._sentence:
            self._sentence = not SENTENCE_ENDS.isdisjoint(text)

    def _end(self, name: str) -> None:
        """Take note that a field is complete: once more text follows, it is judged to its end, not held back."""
        grown = self._fields.get(name)
        if grown is not None:
            grown.ended = True
            self._unsettled = True

    def _overflow(self) -> None:
        """Judge in windows from here on, after the policy has said what an over-long hold means."""
        if self._plan.stream.on_buffer_exceeded == "window" and self._mode == "hold":
            self._mode = "window"
            self._groups = group_supervisors(self._plan, ignore_final=True)
            return
        over = unknown(Cause.OVER_LIMIT, detail="buffer")
        for name, running in self._running.items():
            running.verdict = join_passes(running.verdict, over)
            self._act(name, over)
        self._mode = "window"
        self._groups = group_supervisors(self._plan, ignore_final=True)

    def due(self, *, ended: bool = False) -> list[Pass]:
        """Return the questions that are due now; empty most of the time.

        Args:
            ended: the upstream has ended, so whatever is open gets its final pass.
        """
        if self.block is not None or self._final:
            return []
        if ended or (self.finish is not None and not self._goes_on):
            return self._final_passes()
        if self._mode == "hold" or self._groups["final"]:
            return []
        return self._interim_passes()

    def _interim_passes(self) -> list[Pass]:
        passes: list[Pass] = []
        if self._groups["window"] and self._window_is_due():
            passes.append(self._window_pass(complete=False))
        if self._groups["growth"] and self._total > self._next_growth:
            while self._next_growth < self._total:
                self._next_growth *= 2
            passes.append(self._growth_pass("growth", complete=False))
        return passes

    def _window_is_due(self) -> bool:
        if self._mode == "sentence":
            due = self._settle or self._sentence_is_due()
        else:  # what is held for a long match is judged again: seldom enough that the cost stays that of S-02
            due = self._settle or (self._new >= self._window and self._new >= self._texts.open_chars)
        return due and (self._total - self._seen) * _AGAIN >= self._texts.read

    def _sentence_is_due(self) -> bool:
        if self._sentence and self._new < _SENTENCE_CHARS:
            self._sentence = self._texts.has_sentence()
        return self._sentence or self._new >= _SENTENCE_CHARS

    def _final_passes(self) -> list[Pass]:
        self._final = True
        passes: list[Pass] = []
        if self._groups["window"]:
            passes.append(self._window_pass(complete=True))
        if self._groups["growth"]:
            passes.append(self._growth_pass("growth", complete=True))
        if self._groups["final"]:
            passes.append(self._growth_pass("final", complete=True))
        return passes

    def _window_pass(self, *, complete: bool) -> Pass:
        read = self._readings()
        self._new, self._seen = 0, self._total
        self._sentence = self._unsettled = self._settle = False
        for name, grown, start, end in self._texts.look(self._reach, complete=complete):
            self._new += grown.length - end
            if end > start or grown.kind == "media":
                read.add(self._path(name), grown, start, end)
        return read.ask("window", self._groups["window"], complete=complete)

    def _growth_pass(self, group: Group, *, complete: bool) -> Pass:
        read = self._readings()
        for name, grown in judged_fields(self._fields, complete=complete):
            read.add(self._path(name), grown, 0, grown.length)
            grown.credit = grown.length if complete or grown.ended else credit_of(grown, self._groups[group])
        return read.ask(group, self._groups[group], complete=complete)

    def _readings(self) -> Readings:
        return Readings(self._turn, self._choice)

    def _path(self, name: str) -> str:
        return self._frames.path(self._choice, name)

    def take(self, asked: Pass, found: Sequence[Assessment]) -> None:
        """Take the verdicts of one pass: block, mark for redaction, or give credit."""
        for assessment in found:
            running = self._running[assessment.supervisor]
            verdict = assessment.verdict
            if verdict.spans:
                verdict = shift_spans(verdict, asked.places)
            running.verdict = join_passes(running.verdict, verdict)
            running.seconds += assessment.seconds
            running.passes += assessment.passes if verdict.cause is not _SKIPPED else 0
            running.chars += assessment.chars_judged
            if verdict.label is not _SAFE:
                self._act(assessment.supervisor, verdict)

    def _act(self, name: str, verdict: Verdict) -> None:
        if self._mode == "observe" or self.block is not None:
            return
        action, reason = judge_verdict(self._plan.rules[name], verdict)
        if action == "block" and reason is not None:
            self.block = Block(reason, verdict.cause, verdict.detail)
        elif action == "redact":
            self._mark(verdict.spans)

    def _mark(self, found: Sequence[Span]) -> None:
        """Mark new spans; the overlap of windows finds some again that are marked already."""
        spans = self._strip_signed([span for span in found if not self._is_marked(span) and self._is_own(span)])
        self._spans += spans
        self._marks = merge_spans(self._spans)
        fields = {self._path(name): (name, grown) for name, grown in self._fields.items()}
        late = [span for span in spans if span.path in fields and span.start < fields[span.path][1].released]
        if late:
            self.late_spans += len(late)
            self.block = Block("unsafe", None, "late_span")
        try:
            for pointer in {span.path.partition("#")[0] for span in spans}:
                name, grown = fields.get(pointer, ("", None))
                text = mask_held(grown, name, marks_at(self._marks, pointer), as_json=self._as_json)
                if text is not None:
                    self._rewritten[name] = text
        except RedactionImpossible:
            self.block = self.block or Block("unsafe", None, "redaction_impossible")

    def _strip_signed(self, spans: Sequence[Span]) -> list[Span]:
        """Leave out the parts whose signed text a span touches (W-32), and return the other spans."""
        signed = {self._path(name): grown for name, grown in self._fields.items() if grown.part}
        for grown in [signed[span.path] for span in spans if span.path in signed]:
            if self._plan.on_signed == "block" or grown.released:
                self.block = Block("unsafe", None, "redaction_impossible")
            self._stripped.add(grown.part)
        return [span for span in spans if span.path not in signed]

    def _is_own(self, span: Span) -> bool:
        """Say whether nobody else finds it: of texts read one after another each is judged by itself too.

        What touches an end is another word there, unless each is a text of its own.
        """
        found = [one for name, one in self._fields.items() if name.endswith(JOINED) and self._path(name) == span.path]
        if not found:
            return True
        near = 0 if found[0].kind == "annotation" else 1
        return any(span.start < cut + near and cut - near < span.end for cut in found[0].cuts)

    def _is_marked(self, span: Span) -> bool:
        marks = self._marks.get(span.path, ())
        return any(mark.start <= span.start and span.end <= mark.end for mark in marks)

    def release(self) -> list[bytes]:
        """Return the frames that may leave now, rewritten where a span touches them."""
        if self.block is not None:
            return []
        frontiers, out = dict[str, int](), list[bytes]()
        while self._held:
            held = self._held[0]
            if not self._covers(held, frontiers):
                break
            self._held.popleft()
            self._held_bytes -= len(held.chunk.raw)
            frame = b"" if held.chunk.part in self._stripped else self._render(held)
            self.emptied = not frame
            if frame:
                out.append(frame)
                self.released_any = True
        return out

    def _covers(self, held: _Held, frontiers: dict[str, int]) -> bool:
        if self._final or self._mode == "observe":
            return True
        if held.chunk.finish is not None:
            return False
        for piece, end in zip(held.chunk.pieces, held.ends, strict=True):
            grown = self._fields[piece.field]
            if piece.field not in frontiers:
                frontiers[piece.field] = self._frontier(grown)
            if end > frontiers[piece.field] or (grown.part and not grown.may_leave(frontiers[piece.field])):
                return False
        return True

    def _frontier(self, grown: Field) -> int:
        if (grown.whole and not grown.ended) or self._mode == "hold" or self._groups["final"]:
            return 0
        if not self._groups["window"]:
            return grown.credit if grown.ended else clear_of_cuts(grown.text, grown.credit)
        waits = grown.settled and grown.after is not None
        covered = self._texts.covered(grown, self._holdback) if waits else grown.covered(self._holdback)
        return min(covered, grown.credit) if self._groups["growth"] else covered

    def _render(self, held: _Held) -> bytes:
        chunk = held.chunk
        for piece, end in zip(chunk.pieces, held.ends, strict=True):
            self._fields[piece.field].released = end
        if not self._marks:
            return self._frames.forward(chunk)
        texts: list[str] = []
        for piece, end in zip(chunk.pieces, held.ends, strict=True):
            marks, start = self._marks.get(self._path(piece.field)), end - len(piece.text)
            if piece.field in self._rewritten:
                texts.append("" if start or not piece.text else self._rewritten[piece.field])
            else:
                texts.append(mask_piece(piece.text, start, marks) if marks else piece.text)
        same = texts == [piece.text for piece in chunk.pieces]
        if self.released_any and not (same or any(texts) or chunk.finish) and self._frames.is_bare(chunk):
            return b""  # all it said is inside a redaction that has left already
        return self._frames.forward(chunk, None if same else texts)

    def assessments(self) -> list[Assessment]:
        """Return one assessment a supervisor over all passes; one that never ran is skipped."""
        return [
            Assessment(
                name, running.verdict or unknown(Cause.SKIPPED), running.seconds, max(running.passes, 1), running.chars
            )
            for name, running in self._running.items()
        ]

    def received(self) -> tuple[Segment, ...]:
        """Return everything received so far, as the whole reply would have been seen."""
        read = self._readings()
        for name, grown in judged_fields(self._fields, complete=True):
            if not name.endswith(JOINED):
                read.add_joined(self._path(name), grown, 0, grown.length)
        return read.ask("final", (), complete=True).segments
