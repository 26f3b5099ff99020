from __future__ import annotations

from supervisors.embedded.views import View, iterate_views
from supervisors.types import Kind, Role, Scope, Segment

CONVERSATION: frozenset[Scope] = frozenset({"conversation"})


def segment(text: str, turn: int, role: Role = "user", kind: Kind = "text") -> Segment:
    return Segment(f"/{turn}/{text}", role, kind, text, turn)


def texts(*segments: Segment, scopes: frozenset[Scope] = CONVERSATION) -> list[str]:
    return [view.text for view in iterate_views(segments, scopes)]


def test_one_segment_is_one_view() -> None:
    assert texts(segment("hello", 0)) == ["hello"]


def test_parts_of_a_message_are_joined_both_ways() -> None:  # G-03
    assert texts(segment("vio", 0), segment("let", 0)) == ["vio", "let", "violet", "vio let"]


def test_turns_of_a_role_are_joined_both_ways_across_other_roles() -> None:  # G-03
    found = texts(segment("vio", 0), segment("ok", 1, "assistant"), segment("let", 2))
    assert found == ["vio", "ok", "let", "violet", "vio let"]


def test_scopes_are_never_merged() -> None:  # G-04
    scopes: frozenset[Scope] = frozenset({"conversation", "system"})
    views = list(iterate_views([segment("vio", 0, "system"), segment("let", 1)], scopes))
    assert views == [View("system", "vio", joined=False), View("conversation", "let", joined=False)]


def test_a_scope_that_is_not_asked_for_is_not_seen() -> None:
    assert texts(segment("vio", 0, "system"), segment("tool", -1, "user", "tool_def")) == []


def test_every_readable_kind_is_judged_but_names_and_links_are_not_glued_to_text() -> None:  # G-04
    kinds: list[Kind] = ["tool_result", "tool_args", "prediction", "transcript", "name", "url", "other"]
    found = texts(*[segment(kind, 0, "user", kind) for kind in kinds])
    glued = [kind for kind in kinds if kind not in ("name", "url")]
    assert found[: len(kinds)] == kinds
    assert found[len(kinds) :] == ["".join(glued), " ".join(glued)]


def test_opaque_and_media_segments_give_no_text() -> None:  # G-05
    assert texts(segment("x", 0, "assistant", "opaque"), segment("y", 0, "user", "media")) == []
