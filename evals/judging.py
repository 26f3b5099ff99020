"""Stored answers on their way to a judge: the texts they need, and the votes a file of stored replies holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from evals.folder import RunFolder
from evals.journal import JsonObject
from evals.options import read_options
from evals.panel import Panel, PanelFile, Work, make_panel, score_with, to_exchange
from evals.plan import messages_of
from evals.prepare import Prepared
from evals.recorded import VOTE, Recorded, StoredReply
from evals.scoring import AnswerVerdict, answers_of, open_scores, store_scores
from evals.serving import serve
from evals.summary import Loaded
from evals.types import Item
from supervisors.types import Cause, Label

_WHOLE = 200_000
"""Characters judged in one call: a stored vote is about the whole answer."""


def to_work(run: Loaded, folder: RunFolder, items: Mapping[str, Item]) -> tuple[list[Work], list[AnswerVerdict]]:
    """Return the answers that can be judged, and verdicts for those that cannot: no text is kept, or it is empty."""
    options = run.manifest.options
    composition, system = options.get("composition"), _system(options)
    work: list[Work] = []
    unjudged: list[AnswerVerdict] = []
    for judged in answers_of(run.plan, run.counted):
        text = folder.read_text(judged.sha256)
        if text is None or not text.strip():
            detail = "text_not_kept" if text is None else "empty"
            key = judged.planned.trial_key
            unjudged.append(AnswerVerdict(key, judged.of, Label.UNKNOWN, Cause.SKIPPED, detail))
            continue
        rule = composition if isinstance(composition, str) else None
        messages = messages_of(items[judged.planned.item_id], rule, system)
        work.append(Work(judged, to_exchange(judged.planned.trial_key, judged.planned.target, messages, text)))
    return work, unjudged


def _system(options: Mapping[str, object]) -> str | None:
    sampling = options.get("sampling")
    text = sampling.get("system") if isinstance(sampling, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # JSON
    return text if isinstance(text, str) else None


async def score_answers(panel: Panel, run: Loaded, folder: RunFolder, items: Mapping[str, Item]) -> Path:
    """Have a panel judge every answer of a run; what was judged before by the same panel is not judged again.

    Answers are judged in an order drawn by the run's seed, so that no judge sees a set sorted by category (H-145).
    """
    work, unjudged = to_work(run, folder, items)
    Random(read_options(run.manifest.options).selection.seed).shuffle(work)  # noqa: S311 - an order, no secret
    path, done = open_scores(folder, panel.name, panel.config, run.counted.known)
    store_scores(path, [one for one in unjudged if (one.trial_key, one.of) not in done])
    return await score_with(panel, folder, work)


def has_votes(replies: Sequence[StoredReply]) -> bool:
    """Say whether every stored reply comes with three votes on what kind of answer it is."""
    return bool(replies) and all(len(reply.votes) == 3 for reply in replies)


async def score_by_stored_votes(run: Loaded, folder: RunFolder, prepared: Prepared) -> tuple[Path, ...]:
    """Have the stored votes say what kind each stored answer is, through the same judges that live answers get."""
    work, _ = to_work(run, folder, prepared.items)
    paths: list[Path] = []
    async with serve(Recorded(prepared.target.replies)) as url:
        for model in prepared.target.models:
            own = [one for one in work if one.judged.planned.target == model]
            paths.append(await score_with(_stored_panel(model, f"{url}/v1", prepared), folder, own))
    return tuple(dict.fromkeys(paths))


def _stored_panel(model: str, url: str, prepared: Prepared) -> Panel:
    """Return the three stored votes on one model's answers as judges; the port of this start is not their identity."""
    large = {"url": url, "max_chars": _WHOLE, "context_chars": _WHOLE}
    judges = {f"vote-{n}": {"model": f"{model}{VOTE}{n}", **large} for n in (1, 2, 3)}
    made = make_panel(PanelFile(name="stored-votes", task="answer_kind", judges=judges), {})
    config: JsonObject = {
        "kind": "panel",
        "task": "answer_kind",
        "votes": "stored",
        "file": prepared.target.file_sha256,
    }
    return Panel(made.name, made.task, made.judges, made.reserve, made.lazy, config)
