"""A secret that a config names by reference and no dump shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

PLAIN: Final = "a secret is written as {env: NAME} or {file: PATH}, never as plain text"


@dataclass(frozen=True, slots=True)
class Secret:
    """Hold a secret value together with the reference it was read from.

    In the config file it is written ``{env: NAME}`` or ``{file: PATH}``; `proxy.config` (and `evals.cli`)
    resolve that before validation, because they alone read the environment. A plain string is refused.

    Args:
        reference: ``env:NAME`` or ``file:PATH``, safe to print.
        value: the secret itself; never in repr.
    """

    reference: str
    value: str = field(repr=False)

    def __str__(self) -> str:
        return f"<secret {self.reference}>"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Accept only an already resolved secret; serialise the reference, never the value."""
        return core_schema.no_info_plain_validator_function(
            cls._check,
            serialization=core_schema.plain_serializer_function_ser_schema(_to_reference),
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Describe the two written forms."""
        return {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {k: {"type": "string"}},
                    "required": [k],
                    "additionalProperties": False,
                }
                for k in ("env", "file")
            ]
        }

    @classmethod
    def _check(cls, value: object) -> Secret:
        if isinstance(value, Secret):
            return value
        raise ValueError(PLAIN)


def _to_reference(secret: Secret) -> dict[str, str]:
    kind, _, name = secret.reference.partition(":")
    return {kind: name}
