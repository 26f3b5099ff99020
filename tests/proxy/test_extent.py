"""A config file of any shape is read in bounded time and memory, or refused with one line (O-05, R-05)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.checks import check_examined
from proxy.config import Examined, examine_config, load_config, parse_config
from proxy.expand import expand
from proxy.extent import MOST_BYTES, MOST_DEPTH, check_extent, is_regular, refusing
from proxy.locating import name_file
from proxy.reading import read_tree
from proxy.reload import ConfigSource, fingerprint
from supervisors.errors import ConfigError
from tests.timing import assert_linear


def bomb(levels: int, width: int = 9) -> str:
    """Return aliases of aliases: width to the power of levels values in a few lines."""
    first = f"x0: &a0 [{', '.join('1' * width)}]"
    others = [f"x{level}: &a{level} [{', '.join([f'*a{level - 1}'] * width)}]" for level in range(1, levels)]
    return "\n".join([first, *others])


def chain(length: int) -> str:
    """Return aliases that nest, each one level deeper than it looks."""
    return "\n".join(["x0: &a0 [1]", *[f"x{i}: &a{i} [*a{i - 1}]" for i in range(1, length)]])


SHAPES = {
    "flow list": "a: " + "[" * 400 + "]" * 400,
    "open braces": "{" * 20_000,
    "open brackets": "a: " + "[" * 5000,
    "block list": "- " * 3000 + "a",
    "closed list": "upstreams: " + "[" * 1000 + "]" * 1000,
    "deep json": '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "shallow json": '{"a": ' + "[" * 60 + "]" * 60 + "}",
    "bomb": bomb(9),
    "bomb in a section": bomb(9).replace("x8:", "upstreams:"),
    "alias to itself": "a: &a [*a]",
    "alias in its mapping": "a: &a {b: *a}",
    "nested aliases": chain(300),
    "many in json": '{"a": [' + "1," * 200_000 + "1]}",
    "huge integer": "a: " + "9" * 5000,
    "huge integer in json": '{"a": ' + "9" * 5000 + "}",
    "huge hex": "a: 0x" + "f" * 5000,
    "half a pair": 'a: "\\uD800"',
    "half a pair in json": '{"a": "\\ud800"}',
    "code 0": 'a: "x\\0y"',
    "code 0 in a key": '{"a\\u0000": 1}',
    "endless number": "a: .inf",
    "no number": '{"a": NaN}',
    "date": "a: 2026-01-31",
    "no date": "a: 2026-13-45",
    "no integer": "a: !!int x",
    "no boolean": "a: !!bool maybe",
    "no binary": "a: !!binary é",
    "binary": "a: !!binary aGVsbG8=",
    "set": "a: !!set {b}",
    "no timestamp": "a: !!timestamp x",
    "number as key": "a: {1: x}",
    "list as key": "? [a]\n: b",
    "long key": "k" * 1000 + ": 1",
    "unknown tag": "a: !!python/object/apply:os.system [x]",
    "tab": "\t",
    "nothing": "",
    "list": "[]",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_that_is_no_config_is_one_line_that_names_the_file(tmp_path: Path, shape: str) -> None:  # O-05
    path = tmp_path / "c.yaml"
    path.write_text(SHAPES[shape], "utf-8")
    with pytest.raises(ConfigError) as refused:
        examine_config(path)
    lines = name_file(path, str(refused.value).splitlines()).splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(str(path))
    assert len(lines[0]) < 1500
    assert "bug" not in lines[0]


def test_what_a_config_needs_is_within_the_bounds() -> None:
    check_extent({"a": [[{"b": [1, 1.5, True, None, "x", "ü"]}]]})
    deep: object = 1
    for _ in range(MOST_DEPTH):
        deep = [deep]
    check_extent(deep)
    with pytest.raises(ConfigError, match="nest more than"):
        check_extent([deep])
    text = "a: " + "[" * (MOST_DEPTH - 1) + "]" * (MOST_DEPTH - 1)
    assert list(read_tree(text, "c")) == ["a"]


def test_an_alias_that_is_used_once_or_twice_is_followed() -> None:
    assert read_tree("a: &a [1, 2]\nb: *a\nc: {d: *a}\n", "c") == {"a": [1, 2], "b": [1, 2], "c": {"d": [1, 2]}}


def test_a_file_too_large_a_device_and_a_folder_are_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * (MOST_BYTES + 1))
    for path, said in ((large, "larger than 4 MiB"), (Path("/dev/zero"), "larger than 4 MiB"), (tmp_path, "cannot")):
        with pytest.raises(ConfigError, match=said):
            load_config(path)
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(Path("a\0b"))
    before = fingerprint(large)
    large.write_bytes(b"#" * (MOST_BYTES + 2))
    assert fingerprint(large) not in (before, None)


def test_a_pipe_is_not_read_again(tmp_path: Path) -> None:  # O-05
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not is_regular(pipe)
    source = ConfigSource(pipe)
    assert source.fingerprint() is None
    with pytest.raises(ConfigError, match="no regular file"):
        source.read()


def test_a_secret_is_read_from_a_file_that_ends(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 100_000)
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("/dev/zero", "not a text file"), ("large", "larger than 64 KiB"), ("pipe", "not a text file")):
        text = f"upstreams: {{m: {{base_url: 'http://127.0.0.1:1/v1', api_key: {{file: {name}}}}}}}"
        with pytest.raises(ConfigError, match=f"cannot read the secret file {name}: it is {said}"):
            parse_config(text, {}, tmp_path)


def named(levels: int, width: int) -> dict[str, object]:
    """Return composites that name composites: width to the power of levels members in a few lines."""
    supervisors: dict[str, object] = {"s0": {"use": "rules", "keywords": ["x"]}}
    for level in range(1, levels):
        members = {f"m{i}": f"s{level - 1}" for i in range(width)}
        supervisors[f"s{level}"] = {"use": "vote", "members": members}
    return {"upstreams": {"m": {"base_url": "http://127.0.0.1:1/v1"}}, "supervisors": supervisors}


@pytest.mark.parametrize(
    ("levels", "width", "said"), [(300, 1, "nest deeper than 4"), (5, 30, "more than 10,000 members")]
)
def test_composites_that_name_composites_are_bounded(levels: int, width: int, said: str) -> None:  # G-31
    assert said in str(expand(named(levels, width)).problems)


def test_a_thousand_problems_are_a_hundred_lines_and_a_number(tmp_path: Path) -> None:
    def many(count: int) -> Examined:
        path = tmp_path / "c.json"
        upstreams = '"upstreams": {"m": {"base_url": "http://127.0.0.1:1/v1"}}'
        wrong = ", ".join([f'"w{i}": {{"upstream": "nope"}}' for i in range(count)])
        extra = ", ".join([f'"k{i}": 1' for i in range(count)])
        path.write_text(f'{{{upstreams}, "models": {{{wrong}}}, {extra}}}')
        return examine_config(path)

    found = many(1000)
    assert len(found.problems) == 101
    assert found.problems[-1].endswith("more problems")
    assert check_examined(found) == []
    assert_linear(many, 2000)


def test_what_the_check_trips_over_is_a_config_error_with_its_cause() -> None:
    def trip() -> Iterator[int]:
        yield 1 // 0

    with (
        pytest.raises(ConfigError, match=r"^c\.yaml cannot be checked.*ZeroDivisionError") as refused,
        refusing("c.yaml"),
    ):
        list(trip())
    assert isinstance(refused.value.__cause__, ZeroDivisionError)
    with pytest.raises(ConfigError, match=r"^mine$"), refusing("c.yaml"):
        raise ConfigError("mine")
