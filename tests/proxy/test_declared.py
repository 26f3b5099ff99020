"""Declared routes: which paths a template stands for, and which declarations cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from proxy.checks import check_config
from proxy.config import Config, canonical_config, parse_config
from proxy.declared import UnguardedRoute, UpstreamConfig
from supervisors.errors import ConfigError


@pytest.mark.parametrize(
    ("template", "path", "covered"),
    [
        ("/v1/files", "/v1/files", True),
        ("/v1/files", "/v1/Files", False),
        ("/v1/files", "/v1/files/a", False),
        ("/v1/files/{id}", "/v1/files/file-1:a~b.c_d", True),
        ("/v1/files/{id}", "/v1/files/", False),
        ("/v1/files/{id}", "/v1/files/..", False),
        ("/v1/files/{id}", "/v1/files/.", False),
        ("/v1/files/{id}", "/v1/files/a/b", False),
        ("/v1/files/{id}", "/v1/files/a%2Fb", False),
        ("/v1/files/{id}", "/v1/files/a b", False),
        ("/v1/files/{id}", "/v1/files/a\n", False),
        ("/v1/files/{id}/content", "/v1/files/x/content", True),
    ],
)
def test_a_template_stands_for_single_plain_parts(template: str, path: str, covered: bool) -> None:  # M-09
    assert UnguardedRoute(method="GET", path=template).covers(path) is covered


@pytest.mark.parametrize("path", ["/files", "v1/files", "/v1", "/v1/", "/v1/../x", "/v1/a b", "/v1/{x}y", "/v1/*"])
def test_a_path_of_another_form_is_refused(path: str) -> None:
    with pytest.raises(ValidationError):
        UnguardedRoute(method="GET", path=path)


def findings(tmp_path: Path, upstreams: int, *routes: dict[str, Any]) -> list[tuple[str, str]]:
    config = {
        "upstreams": {f"u{n}": {"base_url": "http://127.0.0.1:1/v1"} for n in range(upstreams)},
        "unguarded_routes": routes,
        "journal": {"path": tmp_path / "j.sqlite3"},
    }
    found = check_config(Config.model_validate(config))
    return [(one.severity, one.path) for one in found if one.path.startswith("unguarded_routes")]


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/{any}", "/v1/chat/{any}", "/v1/models", "/v1/decisions/{id}", "/v1/messages"]
)
def test_a_declaration_must_not_hide_what_the_proxy_serves(tmp_path: Path, path: str) -> None:  # M-09
    assert findings(tmp_path, 1, {"method": "POST", "path": path}) == [("error", "unguarded_routes.0.path")]


def test_every_declaration_is_a_warning_and_a_double_one_an_error(tmp_path: Path) -> None:
    one = {"method": "GET", "path": "/v1/files"}
    assert findings(tmp_path, 1, one, one) == [("error", "unguarded_routes.1"), ("warning", "unguarded_routes.0")]
    assert findings(tmp_path, 1, {"method": "GET", "path": "/v1/responses/{id}"}) == [("warning", "unguarded_routes.0")]


@pytest.mark.parametrize(("upstream", "wrong"), [(None, True), ("nope", True), ("u1", False)])
def test_several_upstreams_need_a_name(tmp_path: Path, upstream: str | None, wrong: bool) -> None:
    found = findings(tmp_path, 2, {"method": "GET", "path": "/v1/files", "upstream": upstream})
    assert (("error", "unguarded_routes.0.upstream") in found) is wrong


NAMED: Mapping[str, str] = {"AZ": "Bearer violet-umbrella-7"}


def upstream(headers: str) -> str:
    return f"upstreams: {{main: {{base_url: 'http://127.0.0.1:9/v1', headers: {{{headers}}}}}}}"


def test_a_header_may_be_a_secret_that_nothing_shows() -> None:
    config = parse_config(upstream("authorization: {env: AZ}, x-team: red"), NAMED)
    made = config.upstreams["main"]
    assert isinstance(made, UpstreamConfig)
    assert made.fixed_headers() == [("authorization", "Bearer violet-umbrella-7"), ("x-team", "red")]
    assert made.header_secrets() == ["Bearer violet-umbrella-7", "violet-umbrella-7"]
    assert "violet" not in repr(config)
    assert b"violet" not in canonical_config(config)
    assert b'"authorization":{"env":"AZ"}' in canonical_config(config)


@pytest.mark.parametrize("name", ["api-key", "Authorization", "x-api-key"])
def test_a_credential_in_a_header_is_no_plain_text(name: str) -> None:
    with pytest.raises(
        ConfigError, match=r"upstreams\.main\.headers: .*credential: write its value as \{env: NAME\}"
    ) as said:
        parse_config(upstream(f"{name}: violet-umbrella"), NAMED)
    assert "violet" not in str(said.value)
    with pytest.raises(ConfigError, match=r"upstreams\.main\.headers\.x-a: a header is a text, or a secret"):
        parse_config(upstream("x-a: 7"), NAMED)
