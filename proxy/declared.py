"""Config entries of the routes beside chat: the model names of the moderation façade, and routes passed on unjudged."""

from __future__ import annotations

import re
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

_STRICT = ConfigDict(frozen=True, extra="forbid")
_PART: Final = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._:~-]{1,256}\Z")
"""What may stand for a part in braces: never a dot segment, a slash or an escape."""


class ModerationsConfig(BaseModel):
    """The model names of `/v1/moderations` and of the `moderation` field: each is a policy whose input stage judges.

    Without `aliases`, ``omni-moderation-latest`` is the policy ``default``, if there is one.
    """

    model_config = _STRICT

    aliases: dict[str, str] | None = None


class UnguardedRoute(BaseModel):
    """A route that is passed to a model server unjudged; every call through it is recorded and counted.

    A part of the path in braces, as in ``/v1/files/{id}``, stands for one part of letters, digits and ``. _ : ~ -``.
    """

    model_config = _STRICT

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str = Field(pattern=r"^/v1(/([A-Za-z0-9][A-Za-z0-9._-]*|\{[a-z_]+\}))+$")
    upstream: str | None = None

    def covers(self, path: str) -> bool:
        """Say whether a path is one that the template stands for; upper and lower case are told apart."""
        wanted, given = self.path.split("/"), path.split("/")
        if len(wanted) != len(given):
            return False
        return all(
            _PART.match(part) is not None if name.startswith("{") else name == part
            for name, part in zip(wanted, given, strict=True)
        )
