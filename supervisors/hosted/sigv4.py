"""AWS Signature Version 4 for a JSON POST: a pure function of request, credentials and time.

Source: "Create a signed AWS API request", AWS Identity and Access Management user guide; the golden signatures of the
tests are those of botocore.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"
_UNRESERVED = "-._~"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who is calling.

    Args:
        access_key_id: public half of the key.
        secret_access_key: secret half.
        session_token: of temporary credentials, empty for lasting ones.
    """

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


def sign(
    url: str, body: bytes, credentials: Credentials, *, region: str, service: str, now: datetime
) -> Mapping[str, str]:
    """Return the headers that authorise this POST of JSON.

    Args:
        url: absolute, without query.
        body: exactly the bytes that are sent.
        credentials: who is calling.
        region: e.g. ``eu-west-1``.
        service: signing name, ``bedrock`` for its runtime.
        now: time in UTC; the service refuses one that is more than five minutes off.
    """
    parts = urlsplit(url)
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    signed = {"content-type": "application/json", "host": parts.netloc, "x-amz-date": stamp}
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        [
            "POST",
            quote(parts.path or "/", safe=f"/{_UNRESERVED}"),  # of a path that is encoded already, a second time
            parts.query,
            *[f"{name}:{signed[name].strip()}" for name in sorted(signed)],
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        ]
    )
    to_sign = "\n".join([_ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_access_key}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    headers = {name: value for name, value in signed.items() if name != "host"}
    credential = f"{credentials.access_key_id}/{scope}"
    headers["authorization"] = f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={signature}"
    return headers
