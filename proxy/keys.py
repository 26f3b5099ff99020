"""Callers' keys: looked up by digest, compared in constant time, and what each may use (X-01)."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from hashlib import sha256
from hmac import compare_digest

from proxy.config import KeyConfig
from proxy.limits import Allowance
from proxy.wire.errors import RequestError
from supervisors.light import light_dataclass


@light_dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking.

    Args:
        name: configured name of the key, None when the proxy runs without keys.
        key_id: first 12 hex digits of the key's SHA-256.
        settings: what the key may do; None means everything (no keys configured, loopback only).
        allowance: how much it may do; None means without end.
    """

    name: str | None = None
    key_id: str | None = None
    settings: KeyConfig | None = None
    allowance: Allowance | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags policies are attached by."""
        return self.settings.tags if self.settings else ()

    @property
    def admin(self) -> bool:
        """Say whether decisions and scores may be read."""
        return self.settings is None or self.settings.admin

    @property
    def check(self) -> bool:
        """Say whether the key may judge without generating."""
        return self.settings is None or self.settings.check

    @contextmanager
    def admitted(self) -> Generator[None]:
        """Count the body of the `with` as one request of this caller.

        Raises:
            RequestError: 429, the key has used up its rate or its number.
        """
        if self.allowance is None:
            yield
            return
        self.allowance.enter()
        try:
            yield
        finally:
            self.allowance.leave()

    def allow_route(self, route: str) -> None:
        """Raise 403 when the key may not use the route."""
        if self.settings is not None and not _matches(self.settings.routes, route):
            raise RequestError(403, "route_not_allowed", f"This key may not use {route}.")

    def allow_check(self) -> None:
        """Raise 403 when the key may not judge without generating."""
        if not self.check:
            raise RequestError(403, "route_not_allowed", "This key may not use /v1/guardrails/check.")

    def allow_model(self, model: str) -> None:
        """Raise 403 when the key may not use the model."""
        if not self.may_use(model):
            raise RequestError(403, "model_not_allowed", "This key may not use the requested model.", param="model")

    def may_use(self, model: str) -> bool:
        """Say whether the key may use the model."""
        return self.settings is None or _matches(self.settings.models, model)


_ANYBODY = Caller()


class Keyring:
    """All caller keys.

    Args:
        keys: by configured name; none at all means that everybody on loopback is the operator.
    """

    def __init__(self, keys: Mapping[str, KeyConfig]) -> None:
        self._callers = [
            (settings.digest, Caller(name, settings.digest[:12], settings, _allowance(settings)))
            for name, settings in keys.items()
        ]

    def in_flight(self) -> Mapping[str, int]:
        """Return the number of requests under way of every key that is limited."""
        found = [caller for _, caller in self._callers if caller.name is not None]
        return {str(one.name): one.allowance.in_flight for one in found if one.allowance is not None}

    def authenticate(self, presented: str | None) -> Caller:
        """Return the caller of a key.

        Args:
            presented: the key itself, None when the request has none.

        Raises:
            RequestError: 401 for a missing or wrong key.
        """
        if not self._callers:
            return _ANYBODY
        if not presented:
            raise RequestError(401, "invalid_api_key", "Send a key: 'Authorization: Bearer KEY' or 'x-api-key: KEY'.")
        digest = sha256(presented.encode("utf-8", "surrogateescape")).hexdigest()
        found: Caller | None = None
        for known, caller in self._callers:
            if compare_digest(known, digest):
                found = caller
        if found is None:
            raise RequestError(401, "invalid_api_key", "The key is not known to this proxy.")
        return found


def read_key(authorization: str | None, api_key: str | None) -> str | None:
    """Return the key of the two headers it may come in; a Bearer token wins."""
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return token.strip()
    return api_key or None


def _allowance(settings: KeyConfig) -> Allowance | None:
    if settings.requests_per_minute is None and settings.max_in_flight is None:
        return None
    return Allowance(settings.requests_per_minute, settings.max_in_flight)


def _matches(patterns: Sequence[str], value: str) -> bool:
    return any(pattern == "*" or fnmatchcase(value, pattern) for pattern in patterns)
