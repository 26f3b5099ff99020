"""What a fake judge needs: the nonce it was told, and a reply that carries it."""

from __future__ import annotations

import json
import re


def nonce_in(instruction: str) -> str:
    """Return the nonce that an instruction fences its material with."""
    found = re.search(r"the text `([0-9a-f]{32})`", instruction)
    assert found is not None
    return found[1]


def judged_as(label: object, instruction: str, **members: object) -> str:
    """Return the reply of a judge that keeps to its instruction."""
    return json.dumps({"nonce": nonce_in(instruction), "label": label, **members})
