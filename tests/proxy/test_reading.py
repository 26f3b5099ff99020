from __future__ import annotations

from pathlib import Path

import pytest

from proxy.reading import read_tree
from supervisors.errors import ConfigError

SHIPPED = sorted((Path(__file__).parents[2] / "evals" / "policies").glob("*.yaml"))


def test_json_and_yaml_give_the_same_tree() -> None:  # operations §2.1
    assert read_tree('{"a": [1, null]}', "c") == read_tree("a: [1, null]", "c") == {"a": [1, None]}


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2\n"])
def test_an_error_names_the_file_and_the_place(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^here\.yaml:\d:\d: not valid YAML: "):
        read_tree(text, "here.yaml")


def test_a_merge_key_gives_what_a_mapping_has_not_itself() -> None:
    text = "a: &a {x: 1, y: [1]}\nb: &b {y: 2, z: 3}\nc: {<<: [*a, *b], z: 4}\nd: {x: 0, <<: *a}\n"
    found = read_tree(text, "c")
    assert found["c"] == {"x": 1, "y": [1], "z": 4}
    assert found["d"] == {"x": 0, "y": [1]}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: {<<: 1}", "1:9: not valid YAML: a merge key"),
        ("a: &a {x: 1}\nb: {<<: *a, <<: *a}", "2:13: not valid YAML: the key '<<' occurs twice"),
        ("a: &a {<<: *a}", "not valid YAML: found unconstructable recursive node"),
        ("a: &a {x: 1}\nb: {x: 1, x: 2, <<: *a}", "2:11: not valid YAML: the key 'x' occurs twice"),
    ],
)
def test_a_merge_key_that_cannot_be_followed_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_tree(text, "c")
    assert problem in str(caught.value)


def test_merge_keys_cannot_make_a_small_file_large() -> None:
    wide = ", ".join(f"k{number}: 1" for number in range(1_000))
    text = f"a: &a {{{wide}}}\n" + "\n".join(f"m{number}: {{<<: *a}}" for number in range(200))
    with pytest.raises(ConfigError, match="comes to more than 100,000 values"):
        read_tree(text, "c")


@pytest.mark.parametrize("file", SHIPPED, ids=[file.name for file in SHIPPED])
def test_every_policy_file_that_is_shipped_can_be_read(file: Path) -> None:
    tree = read_tree(file.read_text("utf-8"), file.name, "policies")
    assert tree["policies"] or tree["supervisors"]
