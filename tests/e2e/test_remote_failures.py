"""Every fault of a real server × every remote supervisor × open and closed (F-01): none yields safe, closed blocks."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncGenerator, Mapping

import pytest

from proxy.policy import Rule, UnknownPolicy, decide
from supervisors.ask import ask
from supervisors.chat import ChatContext, ChatService, ChatSettings
from supervisors.plugins import build_supervisor
from supervisors.testing import exchange
from supervisors.transport import HttpClient
from supervisors.types import Assessment, Cause, Endpoint, Label, Supervisor
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.supervisors.disguises import Seer
from tests.supervisors.hosted.samples import SAMPLES, build
from tests.timing import AT_ONCE_S

JSON_TYPE = {"content-type": "application/json"}
NOWHERE: Mapping[str, str] = {
    "connect error": "http://127.0.0.1:9/v1",
    "no such host": "http://umbrella.invalid/v1",
    "no TLS": "https://{host}/v1",
}
"""Addresses at which nobody answers; the last is of a server that waits for a request instead of speaking TLS."""
FAULTS: Mapping[str, tuple[Answer | None, Cause]] = {
    "connect error": (None, Cause.ERROR),
    "no such host": (None, Cause.ERROR),
    "no TLS": (None, Cause.TIMEOUT),
    "reset": (Answer(abort_at=-1), Cause.ERROR),
    "time-out": (Answer(hold_at=-1), Cause.TIMEOUT),
    "slow drip": (Answer(body=b" " * 999, headers=JSON_TYPE, split=1, frame_delay_s=0.02), Cause.TIMEOUT),
    "401": (Answer(status=401, json={"error": {"message": "bad key"}}), Cause.ERROR),
    "403": (Answer(status=403, json={"error": {"message": "not yours"}}), Cause.ERROR),
    "404": (Answer(status=404, json={"error": {"message": "no such model"}}), Cause.ERROR),
    "429": (Answer(status=429, json={"error": {"message": "slow down"}}), Cause.ERROR),
    "500": (Answer(status=500, body=b"oops"), Cause.ERROR),
    "503": (Answer(status=503, body=b"later"), Cause.ERROR),
    "redirect": (Answer(status=302, headers={"location": "http://127.0.0.1:1/"}, body=b"-"), Cause.ERROR),
    "bad JSON": (Answer(body=b'{"flagged": fal', headers=JSON_TYPE), Cause.UNPARSABLE),
    "a key twice": (Answer(body=b'{"flagged": true, "flagged": false}', headers=JSON_TYPE), Cause.UNPARSABLE),
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
    "guard, completions": {"use": "guard", "card": "llama-guard-1"},
    "classifier": {"use": "classifier", "card": "llama-prompt-guard-2-86m", "route": "classify"},
    "classifier, predict": {"use": "classifier", "card": "llama-prompt-guard-2-86m", "route": "predict"},
    "classifier, hf": {"use": "classifier", "card": "llama-prompt-guard-2-86m", "route": "hf"},
    "topics": {"use": "topics", "model": "m", "topics": {"rain": ["violet umbrella"]}},
    "judge": {"use": "judge", "model": "judge", "repair": False, "structured": "none"},
}
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # never used; the default one reads every root certificate
ITSELF: Mapping[str, str] = {"self_judge": "structured", "self_judge, word": "word"}
REMOTE = [*sorted(SAMPLES), *MODELS, *ITSELF, "lionguard"]


def supervisor_at(use: str, url: str) -> Supervisor:
    if use in ITSELF:
        return build_supervisor({"use": "self_judge", "style": ITSELF[use], "structured": "json_schema"})
    if use == "lionguard":
        return Seer.lionguard(url)
    if use in MODELS:
        return build_supervisor({**MODELS[use], "url": url})
    return build(use, url.removesuffix("/v1"))


@contextlib.asynccontextmanager
async def faulty(fault: str) -> AsyncGenerator[str]:
    """Run a server that always answers like this, or give an address where nobody does."""
    answer = FAULTS[fault][0]
    async with FakeUpstream() as up:
        up.script(*[answer or Answer()] * 4)
        yield up.url if answer is not None else NOWHERE[fault].format(host=up.url.split("/")[2])


def context_at(url: str, client: HttpClient, settings: ChatSettings, seconds: float) -> ChatContext:
    """Return a context in which the model of the exchange, too, answers at this address."""

    def resolve(endpoint: Endpoint) -> Endpoint:
        return endpoint if endpoint.url is not None else Endpoint(endpoint.model, url)

    return ChatService(client, settings, resolve=resolve, seed=1).context(seconds)


@pytest.mark.parametrize("use", REMOTE)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_unknown_with_its_cause_and_blocks_unless_the_policy_says_otherwise(
    use: str, fault: str
) -> None:
    _, cause = FAULTS[fault]
    settings = ChatSettings(retries=1 if fault in ("429", "500") else 0, max_reply_bytes=200_000)
    seconds = 0.2 if cause is Cause.TIMEOUT else 5.0
    async with faulty(fault) as url, HttpClient(tls=NO_TLS) as client:
        context = context_at(url, client, settings, seconds)
        found = await ask("remote", supervisor_at(use, url), exchange("violet umbrella"), context)
    assert (found.verdict.label, found.verdict.cause) == (Label.UNKNOWN, cause)
    assert found.seconds < AT_ONCE_S
    assert blocks(found, "block")
    assert not blocks(found, "log")


@pytest.mark.parametrize("use", REMOTE)
async def test_one_whose_server_keeps_failing_is_not_asked_for_a_while_and_unknown(use: str) -> None:  # F-01, G-47
    settings = ChatSettings(retries=0, breaker_failures=1)
    async with HttpClient(tls=NO_TLS) as client:
        context = context_at(NOWHERE["connect error"], client, settings, 5.0)
        supervisor = supervisor_at(use, NOWHERE["connect error"])
        first = await ask("remote", supervisor, exchange("violet umbrella"), context)
        found = await ask("remote", supervisor, exchange("violet umbrella"), context)
    assert [each.verdict.cause for each in (first, found)] == [Cause.ERROR, Cause.ERROR]
    assert found.verdict.label is Label.UNKNOWN
    assert found.verdict.detail == "circuit_open"
    assert blocks(found, "block")


def blocks(found: Assessment, on_unknown: str) -> bool:
    policy = UnknownPolicy.model_validate({"default": on_unknown})
    decision = decide("p", "input", None, [Rule("remote", on_unknown=policy)], [found])
    assert decision.label is Label.UNKNOWN
    return decision.blocked
