"""Base URLs that lead to a server, but not to where it answers, and a secret that is none."""

from __future__ import annotations

import pytest

from proxy.checks import check_config
from proxy.config import Config
from supervisors.secret import Secret


def said(base_url: str) -> list[str]:
    tree = {"upstreams": {"main": {"base_url": base_url}}}
    found = check_config(Config.model_validate(tree))
    return [one.message for one in found if one.path == "upstreams.main.base_url" and one.severity == "warning"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://127.0.0.1:8000/"])
def test_a_base_url_without_a_version_is_warned_of(url: str) -> None:
    assert said(url) == ["it has no path: requests would go to /chat/completions; most servers want /v1 at its end"]


def test_a_base_url_that_is_a_route_is_warned_of() -> None:
    (message,) = said("http://127.0.0.1:8000/v1/chat/completions/")
    assert message.endswith("requests would go to /v1/chat/completions/chat/completions; end it at /v1")
    assert said("http://127.0.0.1:8000/completions")[0].endswith("end it at /v1")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "https://models.example/openai/deployments/x"])
def test_any_other_path_is_nobodys_business(url: str) -> None:
    assert said(url) == []


@pytest.mark.parametrize(("length", "warned"), [(31, True), (32, False)])
def test_a_short_key_of_the_digests_is_warned_of(length: int, warned: bool) -> None:  # O-25
    journal = {"hmac_key": Secret("env:KEY", "k" * length)}
    tree = {"upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}}, "journal": journal}
    found = [one for one in check_config(Config.model_validate(tree)) if one.path == "journal.hmac_key"]
    assert [one.severity for one in found] == ["warning"] * warned


@pytest.mark.parametrize(("places", "warned"), [(7, True), (8, False)])
def test_fewer_places_for_records_than_requests_at_a_time_are_warned_of(places: int, warned: bool) -> None:
    tree = {"upstreams": {"main": {"base_url": "http://127.0.0.1:1/v1"}}}
    more = {"journal": {"max_backlog": places}, "limits": {"max_in_flight": 8}}
    found = [one for one in check_config(Config.model_validate(tree | more)) if one.path == "journal.max_backlog"]
    assert [one.severity for one in found] == ["warning"] * warned
