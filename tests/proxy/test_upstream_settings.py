"""Settings of a model server are checked when they are made (X-02, X-03)."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.upstream_settings import UpstreamSettings
from supervisors.errors import ConfigError

KEY = "sk-of-the-house"


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"base_url": None}, "base_url"),
        ({"base_url": "http://user:word@host/v1"}, "base_url"),
        ({"base_url": "http://host/v1?a=b"}, "base_url"),
        ({"base_url": "http://host/v1#a"}, "base_url"),
        ({"base_url": "http://0x7f.1/v1"}, "base_url"),
        ({"base_url": "http://169.254.169.254/v1"}, "base_url"),
        ({"base_url": "http://host/v1", "forward_headers": ("Authorization",)}, "forward_headers"),
        ({"base_url": "http://host/v1", "forward_headers": ("x-forwarded-for",)}, "forward_headers"),
        ({"base_url": "http://host/v1", "forward_headers": ("no name",)}, "forward_headers"),
        ({"base_url": "http://host/v1", "extra_headers": (("host", "a"),)}, "extra_headers"),
        ({"base_url": "http://host/v1", "extra_headers": (("x-a", "b\r\nc: d"),)}, "extra_headers"),
    ],
)
def test_settings_that_cannot_be_right_are_refused_with_their_path(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        UpstreamSettings(**changes)
    assert caught.value.path == path


def test_what_is_shown_of_settings_does_not_hold_secrets() -> None:
    shown = repr(UpstreamSettings("http://host/v1", KEY, extra_headers=(("x-a", "umbrella"),)))
    assert "umbrella" not in shown
    assert KEY not in shown
