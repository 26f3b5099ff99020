from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisors.types import Kind, Role, Segment
from supervisors.views import Touched, cut_chunks, join_segments


def part(text: str, turn: int = 0, role: Role = "user", kind: Kind = "text", n: int = 0) -> Segment:
    return Segment(f"/messages/{turn}/content/{n}", role, kind, text, turn)


def test_parts_and_turns_of_one_role_are_joined_with_and_without_a_space() -> None:  # G-03
    segments = [part("violet um"), part("brella", n=1), part("I see", 1, "assistant"), part("again", 2)]
    assert [view.text for view in join_segments(segments)] == ["violet umbrellaagain", "violet um brella again"]


def test_scopes_roles_and_kinds_are_never_joined() -> None:  # G-04
    segments = [
        part("a", role="system"),
        part("b", role="user"),
        part("c", kind="tool_def"),
        part("d", kind="reasoning"),
        part("e", 1, role="assistant"),
    ]
    assert list(join_segments(segments)) == []


@pytest.mark.parametrize(("one", "two"), [("developer", "system"), ("function", "tool")])
def test_two_names_of_one_role_are_joined(one: Role, two: Role) -> None:  # G-03
    views = join_segments([part("violet um", role=one), part("brella", 1, role=two)])
    assert "violet umbrella" in [view.text for view in views]


def test_members_of_one_name_in_the_entries_of_a_list_are_joined_without_a_space() -> None:  # G-03
    def entry(path: str, text: str) -> Segment:
        return Segment(path, "user", "other", text, 0)

    named = [entry("/docs/0/body", "see vio"), entry("/docs/0/title", "x"), entry("/docs/1/body", "let")]
    assert [view.text for view in join_segments(named)] == ["see violet"]
    assert [view.text for view in join_segments([entry("/x/0~", "vio"), entry("/x/1~", "let")])] == ["violet"]
    assert list(join_segments([entry("/docs/0/vio#key", "vio"), entry("/docs/1/let#key", "let")])) == []
    assert list(join_segments([entry("/one", "vio"), entry("/two", "let")])) == []


@pytest.mark.parametrize("kind", ["name", "url", "tool_def", "annotation"])
def test_words_that_nothing_continues_are_not_joined(kind: Kind) -> None:
    assert list(join_segments([part("violet", kind=kind), part("umbrella", kind=kind, n=1)])) == []


def test_a_hit_maps_back_to_every_segment_it_touches() -> None:  # G-03
    segments = [part("a viol"), part("et um", n=1), part("brella b", n=2)]
    view = next(iter(join_segments(segments)))
    start = view.text.index("violet")
    assert view.locate(start, start + 14) == (
        Touched("/messages/0/content/0", 2, 6),
        Touched("/messages/0/content/1", 0, 5),
        Touched("/messages/0/content/2", 0, 5),
    )


def test_a_hit_inside_one_segment_is_left_to_that_segment() -> None:
    view = next(iter(join_segments([part("violet"), part("umbrella", n=1)])))
    assert view.locate(0, 6) == ()


def test_the_middle_of_a_long_segment_is_left_out_of_the_join() -> None:
    segments = [part("x" * 1000), part("y" * 1000, n=1), part("z" * 1000, n=2)]
    view = next(iter(join_segments(segments, reach=10)))
    assert len(view.text) < 100
    middle = view.text.index("y")
    gap = view.text.index("\n", middle)
    assert view.locate(middle - 5, middle + 5) == (
        Touched("/messages/0/content/0", 995, 1000),
        Touched("/messages/0/content/1", 0, 5),
    )
    assert view.locate(gap - 3, gap + 4) == ()  # over the gap
    tail = view.text.index("z")
    assert view.locate(tail - 5, tail + 5)[0] == Touched("/messages/0/content/1", 995, 1000)


@given(st.lists(st.text("abc ", max_size=8), min_size=2, max_size=6), st.sampled_from([None, 2, 3]))
def test_what_a_view_touches_spells_the_hit(texts: list[str], reach: int | None) -> None:
    segments = [part(text, n=i) for i, text in enumerate(texts)]
    by_path = {segment.path: segment.text for segment in segments}
    for view in join_segments(segments, reach):
        for start in range(len(view.text)):
            for end in range(start + 1, len(view.text) + 1):
                touched = view.locate(start, end)
                spelled = "".join([by_path[path][first:last] for path, first, last in touched])
                assert "".join(spelled.split()) in ("", "".join(view.text[start:end].split()))


@given(st.integers(0, 5000), st.integers(2, 900), st.integers(0, 400))
def test_chunks_cover_every_stretch_of_the_overlap(chars: int, max_chars: int, overlap: int) -> None:  # G-12
    if overlap >= max_chars:
        with pytest.raises(ValueError, match="does not fit"):
            cut_chunks(chars, max_chars, overlap)
        return
    chunks = cut_chunks(chars, max_chars, overlap)
    assert chunks[0].start == 0
    assert chunks[-1].end == chars
    assert all(end - start <= max_chars for start, end in chunks)
    for left, right in pairwise(chunks):
        assert left.start < right.start
        assert left.end - right.start >= min(overlap, chars)
