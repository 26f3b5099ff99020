"""What the head of a reply may say about its body, and how much one chunk of it may announce. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from supervisors.transport.messages import TransportError

_SIZE_LINE = re.compile(rb"(?:\A|\n)([0-9A-Fa-f]+)[ \t]*(?:;[^\r\n]*)?\r\n\Z")
_LONGEST_LINE = 1024


def check_framing(headers: Iterable[tuple[str, str]], max_bytes: int) -> bool:
    """Say whether the head of a reply says where its body ends; else the end of the connection does.

    Args:
        headers: with names in lower case; the parser has refused lengths that are no numbers, and two of them.
        max_bytes: of a body; 0 for no limit.

    Raises:
        TransportError: fault ``protocol`` for a coding that was not asked for, ``too_large`` for a length beyond the
            limit: nobody need wait for what is announced.
    """
    sized = coded = False
    for name, value in headers:
        if name == "content-length":
            sized = True
            if max_bytes and int(value) > max_bytes:
                msg = f"the reply is larger than {max_bytes} bytes"
                raise TransportError(msg, "too_large")
        elif name == "transfer-encoding":
            if coded or value.strip().lower() != "chunked":
                msg = "the reply has a transfer encoding that was not asked for"
                raise TransportError(msg, "protocol")
            sized = coded = True
    return sized


def announces_more(data: bytes, body: bytes, max_bytes: int) -> bool:
    """Say whether bytes that end within a chunk begin it with a size beyond the limit.

    Args:
        data: what has come, up to now.
        body: the last piece of body in it, empty without one.
        max_bytes: of a whole body.
    """
    size = len(data) - len(body)
    if size == 0 or not data.endswith(body):
        return False
    found = _SIZE_LINE.search(data, max(0, size - _LONGEST_LINE), size)
    return found is not None and int(found[1], 16) > max_bytes
