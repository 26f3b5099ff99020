from __future__ import annotations

import pytest

from proxy.reading import read_tree
from supervisors.errors import ConfigError


def test_json_and_yaml_give_the_same_tree() -> None:  # operations §2.1
    assert read_tree('{"a": [1, null]}', "c") == read_tree("a: [1, null]", "c") == {"a": [1, None]}


@pytest.mark.parametrize("text", ["a: [", "a: 1\na: 2\n"])
def test_an_error_names_the_file_and_the_place(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^here\.yaml:\d:\d: not valid YAML: "):
        read_tree(text, "here.yaml")
