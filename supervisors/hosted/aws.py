"""What the two Bedrock services share: credentials by reference, the address, and signed requests."""

from __future__ import annotations

from datetime import UTC, datetime

from supervisors.chat import dump_json
from supervisors.hosted.judging import Request
from supervisors.hosted.sigv4 import Credentials, sign
from supervisors.secret import Secret

REGION = r"^[a-z]{2}(-[a-z]+)+-\d$"


def to_credentials(access_key_id: Secret, secret_access_key: Secret, session_token: Secret | None) -> Credentials:
    """Return the values of three references."""
    return Credentials(
        access_key_id.value, secret_access_key.value, session_token.value if session_token is not None else ""
    )


def to_request(base: str | None, path: str, body: object, region: str, credentials: Credentials) -> Request:
    """Write a signed call to the Bedrock runtime.

    Args:
        base: address instead of the region's own.
        path: of the operation, percent-encoded.
        body: JSON.
        region: signing region.
        credentials: who is calling.
    """
    url = f"{(base or f'https://bedrock-runtime.{region}.amazonaws.com').rstrip('/')}{path}"
    now = datetime.now(UTC)
    return Request(url, body, sign(url, dump_json(body), credentials, region=region, service="bedrock", now=now))
