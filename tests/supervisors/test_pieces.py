from __future__ import annotations

import base64
from dataclasses import dataclass, replace

import pytest

from supervisors.narrowing import Narrowing, Turns
from supervisors.offsets import Place
from supervisors.pieces import Pieces, cut_pieces, find_pieces
from supervisors.testing import exchange
from supervisors.types import Cause, Exchange, Kind, Media, Role, Scope, Segment, Verdict


@dataclass(frozen=True)
class Options:
    scopes: tuple[Scope, ...] = ("conversation",)
    roles: frozenset[Role] | None = None
    kinds: frozenset[Kind] | None = None
    turns: Turns = "all"
    max_chunks: int = 8


def halves(text: str) -> list[Place]:
    return [Place(0, len(text) // 2), Place(len(text) // 2, len(text))]


def test_a_piece_knows_where_it_stands() -> None:
    pieces = cut_pieces(exchange("violet umbrella"), ("conversation",), Narrowing(), halves)
    assert [(piece.start, piece.end, piece.text) for piece in pieces.found] == [(0, 7, "violet "), (7, 15, "umbrella")]
    assert pieces.gap is None


def test_the_pieces_of_an_encoded_run_all_stand_for_the_whole_run() -> None:  # G-11
    run = base64.b64encode(b"violet umbrella").decode()
    found = cut_pieces(exchange(run), ("conversation",), Narrowing(), halves).found
    decoded = [piece for piece in found if piece.chain == "base64"]
    assert [(piece.start, piece.end, piece.text) for piece in decoded] == [(0, 20, "violet "), (0, 20, "umbrella")]
    assert decoded[0].to_span("x").end == 20


def test_media_and_unread_encodings_are_a_gap() -> None:  # G-05, G-08
    picture = Segment("/messages/0/content/1", "user", "media", "", media=Media("image/png", 3, "0" * 64))
    asked = exchange("hello")
    seen = cut_pieces(replace(asked, request=(*asked.request, picture)), ("conversation",), Narrowing(), halves)
    assert seen.gap is not None
    assert seen.gap.cause is Cause.UNSUPPORTED
    runs = " ".join([base64.b64encode(f"violet umbrella {i:03}".encode()).decode() + "." for i in range(400)])
    cut_short = cut_pieces(
        Exchange("t", "m", "input", (Segment("/p", "user", "text", runs),)), ("conversation",), Narrowing(), halves
    )
    assert cut_short.gap is not None
    assert cut_short.gap.cause is Cause.OVER_LIMIT


@pytest.mark.parametrize("text", ["violet umbrella", "violet umbrella " * 1_000])
async def test_short_and_long_exchanges_are_cut_alike(text: str) -> None:
    found = await find_pieces(exchange(text), Options(), halves)
    assert isinstance(found, Pieces)
    assert found == cut_pieces(exchange(text), ("conversation",), Narrowing(), halves)


@pytest.mark.parametrize(
    ("options", "cause", "detail"),
    [
        (Options(max_chunks=1), Cause.OVER_LIMIT, "max_chunks"),
        (Options(scopes=("tool_def",)), Cause.SKIPPED, "no_text"),
        (Options(roles=frozenset({"tool"})), Cause.SKIPPED, "no_text"),
        (Options(kinds=frozenset({"tool_args"})), Cause.SKIPPED, "no_text"),
    ],
)
async def test_too_many_pieces_and_none_are_unknown(options: Options, cause: Cause, detail: str) -> None:  # G-05
    found = await find_pieces(exchange("violet umbrella"), options, halves)
    assert isinstance(found, Verdict)
    assert (found.cause, found.detail) == (cause, detail)
