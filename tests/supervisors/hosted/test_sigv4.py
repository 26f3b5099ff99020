"""AWS Signature Version 4. The golden signatures are those of botocore 1.x for the same request and time."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from supervisors.ask import ask
from supervisors.chat import ChatService
from supervisors.hosted.sigv4 import Credentials, sign
from supervisors.testing import exchange
from supervisors.transport import HttpClient
from tests.e2e.fake_upstream import Answer, FakeUpstream
from tests.supervisors.hosted.samples import KEY, build

HOST = "https://bedrock-runtime.eu-west-1.amazonaws.com"
BODY = b'{"source":"INPUT"}'
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ARN = "arn%3Aaws%3Abedrock%3Aeu-west-1%3A123456789012%3Aguardrail%2Fgr1"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"  # of the published examples


@pytest.mark.parametrize(
    ("path", "token", "signature"),
    [
        ("/guardrail/gr1/version/3/apply", "", "2d4248b9369966d535d0810ba064b90d8ab0aac4a02b2139a5d72e1f7de359a3"),
        (
            "/guardrail/gr1/version/3/apply",
            "tok/en=",
            "5f03dae0aae0bfcbf2de89a362ecc2eadfc4e6245dba1deeb0a13c06bd29bb51",
        ),
        (
            f"/guardrail/{ARN}/version/DRAFT/apply",
            "",
            "366616e4c027cfbf222c63823bf1514e51f8b29b5303dc13fe73d77f3281da74",
        ),
    ],
)
def test_a_signature_is_the_one_botocore_makes(path: str, token: str, signature: str) -> None:
    credentials = Credentials("AKIDEXAMPLE", SECRET, token)
    headers = sign(HOST + path, BODY, credentials, region="eu-west-1", service="bedrock", now=NOON)
    assert headers["authorization"].endswith(f"Signature={signature}")
    assert headers["x-amz-date"] == "20260131T120000Z"
    assert ("x-amz-security-token" in headers) == bool(token)
    assert SECRET not in repr(credentials) + str(headers)


@pytest.mark.parametrize("text", ["a violet umbrella", "żółw \ud800 lone"])
async def test_what_arrives_is_what_was_signed(text: str) -> None:
    async with FakeUpstream() as up, HttpClient() as client:
        up.script(Answer(json={"action": "NONE"}))
        root = up.url.removesuffix("/v1")
        await ask("b", build("bedrock", root), exchange(text), ChatService(client).context(5.0))
        got = up.received[0]
        stamp = got.header("x-amz-date") or ""
        again = sign(
            f"http://{got.header('host')}{got.path}",
            got.body,
            Credentials(KEY, KEY),
            region="eu-west-1",
            service="bedrock",
            now=datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC),
        )
        assert got.header("authorization") == again["authorization"]
        assert re.search(r"Credential=k-violet-umbrella/\d{8}/eu-west-1/bedrock/aws4_request", again["authorization"])
