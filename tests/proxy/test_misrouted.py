"""A route that nothing is served on is refused wherever a setting names one: what is bound to it would hold nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.checks import check_config
from proxy.config import Config
from proxy.misrouted import CHECK_ROUTE, JUDGED, SERVED
from proxy.policy import full_route

KNOWN = (
    "/v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /v1/embeddings, /v1/moderations, /v1/models, "
    "/v1/guardrails, /v1/decisions, /v1/guardrails/check"
)
DECLARED = [{"method": "GET", "path": "/v1/files/{id}"}, {"method": "DELETE", "path": "/v1/files/{id}"}]
OF_POLICY, OF_KEY = "policies.p.attach.routes", "keys.app.routes"


def tree(place: str, *routes: str) -> dict[str, Any]:
    return {
        "upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}},
        "supervisors": {"words": {"use": "rules", "keywords": ["violet umbrella"]}},
        "keys": {"app": {"sha256": "a" * 64, **({"routes": routes} if place == OF_KEY else {})}},
        "policies": {
            "p": {
                "attach": {"routes": routes} if place == OF_POLICY else {},
                "input": {"forced": ["words"]},
                "output": {"forced": ["words"]},
            }
        },
    }


def said(config: dict[str, Any], severity: str) -> list[str]:
    found = check_config(Config.model_validate(config))
    return [f"{one.path}: {one.message}" for one in found if one.severity == severity and one.path.endswith("routes")]


@pytest.mark.parametrize("place", [OF_POLICY, OF_KEY])
@pytest.mark.parametrize(
    ("route", "hint"),
    [
        ("/v1/chat/completion", "; did you mean '/v1/chat/completions'?"),
        ("chat/completions", "; did you mean '/v1/chat/completions'?"),
        ("/v1/Chat/Completions", "; did you mean '/v1/chat/completions'?"),
        ("/v1/responces", "; did you mean '/v1/responses'?"),
        ("/v2/*", ""),
        ("/v1/chats/*", ""),
        ("/v1/files/abc", "; did you mean '/v1/files/{id}'?"),
        ("", ""),
    ],
)
def test_a_route_that_there_is_not_is_an_error(place: str, route: str, hint: str) -> None:
    config = {**tree(place, "/v1/chat/completions", route), "unguarded_routes": DECLARED}
    assert said(config, "error") == [
        f"{place}: {full_route(route)!r} is no route; known: {KNOWN}, /v1/files/{{id}}{hint}"
    ]
    assert said(tree(place, "*"), "error") == []


@pytest.mark.parametrize("place", [OF_POLICY, OF_KEY])
@pytest.mark.parametrize("route", [*SERVED, CHECK_ROUTE, "/v1/*", "*", "/v?/chat/*", "/v1/files/{id}", "/files/*"])
def test_a_route_that_there_is_is_taken(place: str, route: str) -> None:
    assert said({**tree(place, route), "unguarded_routes": DECLARED}, "error") == []


@pytest.mark.parametrize(
    ("route", "why"),
    [
        ("/v1/models", "/v1/models: nothing on it is judged"),
        ("/v1/files/*", "/v1/files/{id}: it is declared in unguarded_routes and judged by nobody"),
        ("/v1/moderations", "/v1/moderations: it is judged by the policies of moderations.aliases"),
        (CHECK_ROUTE, f"{CHECK_ROUTE}: it judges as /v1/chat/completions does: attach the policy to that"),
    ],
)
def test_a_route_on_which_no_attached_policy_judges_is_warned_of(route: str, why: str) -> None:
    config = {**tree(OF_POLICY, route, "/v1/chat/*"), "unguarded_routes": DECLARED}
    (found,) = said(config, "warning")
    assert found.startswith(f"{OF_POLICY}: the policy does not hold on {why}")
    assert said({**tree(OF_KEY, route), "unguarded_routes": DECLARED}, "warning") == []


@given(route=st.sampled_from(JUDGED), slash=st.sampled_from(["", "/", "//"]), version=st.booleans())
def test_the_ways_of_writing_a_route_are_one(route: str, slash: str, version: bool) -> None:
    assert full_route((route if version else route.removeprefix("/v1")) + slash) == route


@given(st.text("/v1chat*?[]{}", max_size=12))
def test_a_route_written_out_stays_as_it_is(route: str) -> None:
    assert full_route(full_route(route)) == full_route(route)
