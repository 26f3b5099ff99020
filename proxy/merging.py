"""The strictest of several settings (G-16). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from proxy.policy import BlockPolicy, StreamMode, StreamPolicy, UnknownPolicy
from supervisors.types import Cause

_Word = TypeVar("_Word")
_STREAM_ORDER: Sequence[StreamMode] = ("observe", "window", "sentence", "hold")


def strictest(order: Sequence[_Word], values: Iterable[_Word]) -> _Word:
    """Return the value that stands last in `order`, the first word of `order` when there is none."""
    return max(values, key=order.index, default=order[0])


def merge_unknown(policies: Sequence[UnknownPolicy]) -> UnknownPolicy:
    """Block on every cause that one of them blocks on."""
    if len(policies) == 1:
        return policies[0]
    merged = {
        cause.value: "block" if any(policy.action(cause) == "block" for policy in policies) else "log"
        for cause in Cause
        if cause is not Cause.SKIPPED
    }
    return UnknownPolicy.model_validate(merged)


def merge_streams(streams: Sequence[StreamPolicy]) -> StreamPolicy:
    """Return the strictest way to hold a stream."""
    if not streams:
        return StreamPolicy()
    if len(streams) == 1:
        return streams[0]
    return StreamPolicy(
        mode=strictest(_STREAM_ORDER, (stream.mode for stream in streams)),
        window_chars=min(stream.window_chars for stream in streams),
        overlap_chars=max([s.overlap_chars for s in streams if s.overlap_chars is not None], default=None),
        max_buffer_bytes=min(stream.max_buffer_bytes for stream in streams),
        on_buffer_exceeded=strictest(("window", "block"), (stream.on_buffer_exceeded for stream in streams)),
        on_unstreamable=strictest(("hold", "refuse"), (stream.on_unstreamable for stream in streams)),
        on_block=strictest(("drain", "cancel"), (stream.on_block for stream in streams)),
        block_frame=strictest(("refusal", "error"), (stream.block_frame for stream in streams)),
        heartbeat_s=min(stream.heartbeat_s for stream in streams),
    )


def _is_default(message: str) -> bool:
    return message == BlockPolicy().message


def merge_blocks(blocks: Sequence[BlockPolicy]) -> BlockPolicy:
    """Return what a blocked caller gets; a message of one's own goes before the usual one."""
    if not blocks:
        return BlockPolicy()
    return BlockPolicy(
        input=strictest(("refusal", "error"), (block.input for block in blocks)),
        output=strictest(("refusal", "error"), (block.output for block in blocks)),
        message=min((block.message for block in blocks), key=_is_default),
    )
