"""Decode gzip and deflate bodies piece by piece, for peers that ignore ``accept-encoding: identity``."""

from __future__ import annotations

import zlib

from supervisors.transport.messages import TransportError

_STEP_BYTES = 64 * 1024


class Decoder:
    """Inflate one body.

    Args:
        encoding: value of ``content-encoding``: gzip, x-gzip or deflate.

    Raises:
        TransportError: fault ``protocol``: any other encoding.
    """

    def __init__(self, encoding: str) -> None:
        self._deflate = encoding == "deflate"
        if encoding not in ("gzip", "x-gzip", "deflate"):
            msg = "the reply has a content encoding that was not asked for"
            raise TransportError(msg, "protocol", sent=True)
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS if self._deflate else zlib.MAX_WBITS | 16)
        self._started = False

    def decode(self, data: bytes, max_bytes: int) -> bytes:
        """Return the decoded form of the next piece.

        Raises:
            TransportError: ``protocol`` for corrupt data, ``too_large`` for more than `max_bytes`.
        """
        out = bytearray()
        while data:
            out += self._step(data)
            data = self._inflate.unconsumed_tail
            if len(out) > max_bytes:
                msg = "the decoded reply is larger than allowed"
                raise TransportError(msg, "too_large", sent=True)
        return bytes(out)

    def check_complete(self) -> None:
        """Refuse a body that ended before its compressed data did; an empty body is complete.

        Raises:
            TransportError: fault ``truncated``.
        """
        if self._started and not self._inflate.eof:
            msg = "the reply ended before its compressed data did"
            raise TransportError(msg, "truncated", sent=True)

    def _step(self, data: bytes) -> bytes:
        try:
            if not self._started and self._deflate and data[0] & 0x0F != 8:
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers send deflate without zlib header
            self._started = True
            return self._inflate.decompress(data, _STEP_BYTES)
        except zlib.error:
            msg = "the reply's content encoding is corrupt"
            raise TransportError(msg, "protocol", sent=True) from None
