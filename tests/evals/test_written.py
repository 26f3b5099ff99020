from __future__ import annotations

from pathlib import Path

import pytest

from evals.cli import main
from evals.written import read_mapping, read_policies
from supervisors.errors import ConfigError

_FILES = {"score": "--panel", "gate": "--rules", "direct": "--guard"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", ":1:6: not valid YAML: while parsing a flow sequence: "),
        ("a: 1\n b: 2", ":2:3: not valid YAML: mapping values are not allowed here"),
        ("a: 1\na: 2\n", ":2:1: not valid YAML: the key 'a' occurs twice"),
        ("a: 2026-13-45\n", ":1:4: not valid YAML: the value is no timestamp"),
        ("[" * 5000, "nest more than 48 deep"),
        ("- 1\n", "the file must hold a mapping with words"),
        ("", "the file must hold a mapping with words"),
    ],
    ids=["syntax", "indent", "twice", "date", "deep", "list", "empty"],
)
def test_a_file_of_options_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "words.yaml"
    file.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as caught:
        read_mapping(file, "rules", "words")
    assert str(caught.value).startswith(f"rules {file}:")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_name_is_a_word_whatever_yaml_takes_it_for(tmp_path: Path) -> None:
    file = tmp_path / "words.yaml"
    file.write_text("yes: true\nOff : 1\nwords: {no: 2}\n", "utf-8")
    with pytest.raises(ConfigError, match="a key is a bool"):
        read_mapping(file, "rules", "words")
    file.write_text("yes: true\nOff : 1\n", "utf-8")
    assert read_mapping(file, "rules", "words") == {"yes": True, "Off": 1}


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    file = tmp_path / "words.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\n")
    assert read_mapping(file, "rules", "words") == {"a": 1}


@pytest.mark.parametrize("verb", sorted(_FILES))
@pytest.mark.parametrize("kind", ["bytes", "folder"])
def test_what_is_no_text_is_a_usage_error(
    verb: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "given.yaml"
    if kind == "folder":
        file.mkdir()
    else:
        file.write_bytes(b"a: \xff\n")
    made = ["direct", "smoke", "--limit", "1", "--yes", "--quiet", "--run-name", "run", "--runs-dir", str(tmp_path)]
    assert main(made) == 0
    named = "smoke" if verb == "direct" else "run"
    assert main([verb, named, _FILES[verb], str(file), "--runs-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"{file}: cannot be read: " in said
    assert ("not UTF-8: byte 3" if kind == "bytes" else "Is a directory") in said


def test_the_short_form_is_written_out() -> None:
    body = read_policies("supervisors: {a: {use: rules, keywords: [umbrella]}}\ninput: [a]\n", "p.yaml")
    assert body["policies"] == {"default": {"input": {"forced": ["a"]}}}
    assert "input" not in body


@pytest.mark.parametrize("text", ["supervisors: {}\n", "policies: {}\n", "input: [a]\npolicies: {default: {}}\n"])
def test_a_file_without_a_policy_says_what_it_needs(text: str) -> None:
    with pytest.raises(ConfigError, match=r"needs 'supervisors' and 'policies', or 'input'|do not give both"):
        read_policies(text, "p.yaml")
