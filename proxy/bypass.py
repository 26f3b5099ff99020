"""Tokens by which the judges of one proxy pass through another one unjudged, so that no judge judges a judge (G-42).

A token is an HMAC over the depth, the time until which it holds and the model that is asked; whoever has not got the
secret can make none, and no token opens another model or lives longer than the verifying proxy allows. What such a
call leads to carries its depth on; a second proxy on the way refuses it.
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Final

from proxy.call import Call
from proxy.plan import Plan, StagePlan
from proxy.record import BYPASS_TASK
from proxy.wire.errors import RequestError, unsupported

TOKEN_HEADER: Final = "x-guardrail-bypass"  # noqa: S105 - a header's name
DEPTH_HEADER: Final = "x-guardrail-depth"
MAX_DEPTH: Final = 1
_CLOCKS_S: Final = 5.0
"""How far the clocks of two proxies may be apart."""
_FORM: Final = re.compile(r"1\.([1-9][0-9]?)\.([0-9]{1,12})\.([0-9a-f]{64})", re.ASCII)
_UNJUDGED: Final = Plan((), StagePlan("input"), StagePlan("output"))

Clock = Callable[[], float]


def make_token(secret: str, model: str, until: int, depth: int = 1) -> str:
    """Return a token.

    Args:
        secret: shared by the two proxies.
        model: as the body of the call names it.
        until: last second of its life, since the epoch.
        depth: proxies that the call and what it leads to have passed.
    """
    return f"1.{depth}.{until}.{_sign(secret, model, until, depth)}"


def _sign(secret: str, model: str, until: int, depth: int) -> str:
    text = f"guardrail-bypass/1\n{depth}\n{until}\n{model}"
    return hmac.new(secret.encode(), text.encode("utf-8", "surrogatepass"), "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class Bypass:
    """What this proxy sends and takes.

    Args:
        secret: shared with the other proxies; None takes no token and makes none.
        ttl_s: longest life of a token.
        accept: names or patterns of the models that others' judges may ask here.
        clock: seconds since the epoch.
    """

    secret: str | None = field(default=None, repr=False)
    ttl_s: float = 30.0
    accept: tuple[str, ...] = ()
    clock: Clock = time.time

    def signer(self, model: str) -> Callable[[], tuple[str, str]] | None:
        """Return what makes the header of one call of a model, anew for each; None without a secret."""
        secret = self.secret
        if secret is None:
            return None
        return lambda: (TOKEN_HEADER, make_token(secret, model, int(self.clock() + self.ttl_s)))

    def admit(self, call: Call, headers: Mapping[str, str]) -> Call:
        """Return the call as it is, or, with a token that holds, judged by nobody.

        Raises:
            RequestError: 403 for a token that does not hold, 400 for a call that has passed a proxy already.
        """
        if TOKEN_HEADER not in headers and DEPTH_HEADER not in headers:
            return call
        if DEPTH_HEADER in headers:
            raise _too_deep()
        self._verify(headers[TOKEN_HEADER], call.model)
        if call.moderation is not None:
            raise unsupported("moderation")
        passed = (*call.headers, (DEPTH_HEADER, str(MAX_DEPTH)))
        return replace(call, plan=_UNJUDGED, task=BYPASS_TASK, headers=passed)

    def _verify(self, token: str, model: str) -> None:
        form = _FORM.fullmatch(token)
        if self.secret is None or form is None or not any(fnmatchcase(model, one) for one in self.accept):
            raise _refused("is none that this proxy takes")
        depth, until = int(form[1]), int(form[2])
        if not hmac.compare_digest(form[3], _sign(self.secret, model, until, depth)):
            raise _refused("is none that this proxy takes")
        now = self.clock()
        if until < now:
            raise _refused("has expired; the clocks of the two proxies may be apart")
        if until > now + self.ttl_s + _CLOCKS_S:
            raise _refused(f"lives longer than the {self.ttl_s:g} s that this proxy allows (bypass.ttl_s)")
        if depth > MAX_DEPTH:
            raise _too_deep()


def _refused(why: str) -> RequestError:
    return RequestError(403, "bypass_refused", f"The token in {TOKEN_HEADER} {why}.")


def _too_deep() -> RequestError:
    message = "A judge's call that has passed one proxy cannot pass another: lead the judge's model to a model server."
    return RequestError(400, "bypass_depth", message)
