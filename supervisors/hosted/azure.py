"""What the two services of Azure AI Content Safety share: where they are and who is calling (guards §8.3)."""

from __future__ import annotations

from collections.abc import Mapping

from supervisors.secret import Secret

API_VERSION = "2024-09-01"
MAX_CHARS = 9_000
"""The service takes 10,000 characters and may count them in UTF-16; a text it still finds too long is halved."""


def authorise(api_key: Secret | None, token: Secret | None) -> Mapping[str, str]:
    """Return the header of a subscription key or of an Entra token."""
    if api_key is not None:
        return {"ocp-apim-subscription-key": api_key.value}
    return {"authorization": f"Bearer {token.value}"} if token is not None else {}


def check_credentials(api_key: Secret | None, token: Secret | None) -> None:
    """Refuse an entry with none or both of the two kinds of credentials (fail at start, F-05).

    Raises:
        ValueError: shaped for pydantic.
    """
    if (api_key is None) == (token is None):
        msg = "give api_key (a subscription key) or token (an Entra access token), one of the two"
        raise ValueError(msg)


def to_url(endpoint: str, action: str, version: str) -> str:
    """Return the address of an action."""
    return f"{endpoint.rstrip('/')}/contentsafety/text:{action}?api-version={version}"
