"""Every fault of a real server × every remote supervisor × open and closed (F-01): none yields safe, closed blocks."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncGenerator, Mapping

import pytest

from proxy.policy import Rule, UnknownPolicy, decide
from supervisors.ask import ask
from supervisors.chat import ChatService, ChatSettings
from supervisors.plugins import build_supervisor
from supervisors.testing import exchange
from supervisors.transport import HttpClient
from supervisors.types import Assessment, Cause, Label, Supervisor
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.supervisors.hosted.samples import SAMPLES, build
from tests.timing import AT_ONCE_S

JSON_TYPE = {"content-type": "application/json"}
FAULTS: Mapping[str, tuple[Answer | None, Cause]] = {
    "connect error": (None, Cause.ERROR),
    "reset": (Answer(abort_at=-1), Cause.ERROR),
    "time-out": (Answer(hold_at=-1), Cause.TIMEOUT),
    "slow drip": (Answer(body=b" " * 999, headers=JSON_TYPE, split=1, frame_delay_s=0.02), Cause.TIMEOUT),
    "401": (Answer(status=401, json={"error": {"message": "bad key"}}), Cause.ERROR),
    "429": (Answer(status=429, json={"error": {"message": "slow down"}}), Cause.ERROR),
    "500": (Answer(status=500, body=b"oops"), Cause.ERROR),
    "redirect": (Answer(status=302, headers={"location": "http://127.0.0.1:1/"}, body=b"-"), Cause.ERROR),
    "bad JSON": (Answer(body=b'{"flagged": fal', headers=JSON_TYPE), Cause.UNPARSABLE),
    "cut off": (Answer(frames=[b'{"flagged":', b" false}"], headers=JSON_TYPE, end_at=1), Cause.UNPARSABLE),
    "empty": (Answer(body=b"", headers=JSON_TYPE), Cause.UNPARSABLE),
    "wrong content type": (
        Answer(body=b"<html>all fine</html>", headers={"content-type": "text/html"}),
        Cause.UNPARSABLE,
    ),
    "10 MB": (Answer(body=b'"' + b"x" * 300_000 + b'"', headers=JSON_TYPE), Cause.UNPARSABLE),
}
"""What each must be. The last one stands for a reply larger than allowed; the limit is lowered to 200 kB here."""

MODELS: Mapping[str, Mapping[str, object]] = {
    "moderation": {"use": "moderation"},
    "guard": {"use": "guard", "card": "llama-guard-3-8b"},
    "classifier": {"use": "classifier", "card": "llama-prompt-guard-2-86m", "route": "classify"},
    "judge": {"use": "judge", "model": "judge", "repair": False, "structured": "none"},
}
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # never used; the default one reads every root certificate
REMOTE = [*sorted(SAMPLES), *MODELS]


def supervisor_at(use: str, url: str) -> Supervisor:
    if use in MODELS:
        return build_supervisor({**MODELS[use], "url": url})
    return build(use, url.removesuffix("/v1"))


@contextlib.asynccontextmanager
async def faulty(answer: Answer | None) -> AsyncGenerator[str]:
    """Run a server that always answers like this, or give an address where nobody listens."""
    if answer is None:
        yield "http://127.0.0.1:9/v1"
        return
    async with FakeUpstream() as up:
        up.script(*[answer] * 4)
        yield up.url


@pytest.mark.parametrize("use", REMOTE)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_unknown_with_its_cause_and_blocks_unless_the_policy_says_otherwise(
    use: str, fault: str
) -> None:
    answer, cause = FAULTS[fault]
    settings = ChatSettings(retries=1 if fault in ("429", "500") else 0, max_reply_bytes=200_000)
    seconds = 0.2 if cause is Cause.TIMEOUT else 5.0
    async with faulty(answer) as url, HttpClient(tls=NO_TLS) as client:
        context = ChatService(client, settings, seed=1).context(seconds)
        found = await ask("remote", supervisor_at(use, url), exchange("violet umbrella"), context)
    assert (found.verdict.label, found.verdict.cause) == (Label.UNKNOWN, cause)
    assert found.seconds < AT_ONCE_S
    assert blocks(found, "block")
    assert not blocks(found, "log")


def blocks(found: Assessment, on_unknown: str) -> bool:
    policy = UnknownPolicy.model_validate({"default": on_unknown})
    decision = decide("p", "input", None, [Rule("remote", on_unknown=policy)], [found])
    assert decision.label is Label.UNKNOWN
    return decision.blocked
