from __future__ import annotations

from proxy.merging import merge_blocks, merge_streams, merge_unknown, strictest
from proxy.policy import BlockPolicy, StreamPolicy, UnknownPolicy
from supervisors.types import Cause


def test_the_strictest_stands_last_and_nothing_is_the_mildest() -> None:  # G-16
    assert strictest(("log", "redact", "block"), ["redact", "log"]) == "redact"
    assert strictest(("log", "block"), []) == "log"


def test_what_one_blocks_on_all_block_on() -> None:
    merged = merge_unknown([UnknownPolicy(default="log", timeout="block"), UnknownPolicy(default="log", error="block")])
    blocked = {cause for cause in Cause if cause is not Cause.SKIPPED and merged.action(cause) == "block"}
    assert blocked == {Cause.TIMEOUT, Cause.ERROR}


def test_streams_and_blocks_of_several_policies() -> None:
    held = merge_streams([StreamPolicy(mode="window", window_chars=500), StreamPolicy(mode="hold")])
    assert (held.mode, held.window_chars) == ("hold", 500)
    own = merge_blocks([BlockPolicy(), BlockPolicy(message="ours", input="refusal")])
    assert (own.message, own.input) == ("ours", "error")
