"""The line of a request, from its parsed body to its record.

It gets the model, the sinks and the way out as arguments and never sees HTTP servers, SQL or Prometheus.
"""

from __future__ import annotations

from proxy.beside import Attendance, Attended
from proxy.call import Call, Progress
from proxy.failures import deadline_exceeded, shutting_down
from proxy.line import Line
from proxy.ports import Answer, ClientGone, Model, Responder, Settings, Sinks
from proxy.wire.errors import RequestError
from supervisors.errors import UpstreamError


class Pipeline:
    """The line for every judged route.

    Args:
        settings: from the config.
        sinks: journal, metrics, shadow queue.
    """

    def __init__(self, settings: Settings, sinks: Sinks) -> None:
        self._settings = settings
        self._sinks = sinks
        self._attendance = Attendance(settings.request_timeout_s)

    def end_all(self) -> None:
        """End every exchange that still runs, streams with an error frame (O-09)."""
        self._attendance.end_all(shutting_down)

    def attend(self, out: Responder) -> Attended:
        """Run the body, an exchange that is not on the line, under the same deadline, watch and end as the others."""
        return self._attendance.attend(out.watch)

    def attend_alone(self) -> Attended:
        """Do the same for a body that need not notice, or notices itself, that its caller leaves."""
        return self._attendance.attend(None)

    async def run(self, call: Call, model: Model, out: Responder) -> None:
        """Take one exchange from its parsed body to its record; only a bug and cancellation come out."""
        progress = Progress()
        line = Line(self._settings, self._sinks, call, progress, out)
        answer: Answer | RequestError | None = None
        settled = False
        try:
            answer = await self._run(line, progress, model, out)
            settled = True
        finally:
            if not settled:
                line.record_interrupted()
        await line.close(answer)

    async def _run(self, line: Line, progress: Progress, model: Model, out: Responder) -> Answer | RequestError | None:
        try:
            with self._attendance.attend(out.watch):
                return await line.run(model)
        except ClientGone:
            if not progress.complete:  # a caller may leave as soon as it has read the end
                progress.cancelled = True
                progress.outcome = "cancelled"
                progress.cancelled_upstream = progress.called
            return None
        except TimeoutError:
            if progress.complete:
                return None
            progress.outcome = "upstream_error"
            return deadline_exceeded()
        except RequestError as refused:
            return None if progress.complete else refused
        except UpstreamError as failed:
            progress.outcome = "upstream_error"
            progress.upstream_error = failed.kind
            progress.filtered = progress.filtered or failed.code == "content_filter"
            return line.tell(failed)
