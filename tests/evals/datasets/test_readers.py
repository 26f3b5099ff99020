"""Readers, one trap of real files at a time, on made-up rows."""

from __future__ import annotations

import base64
import gzip
import io
import zipfile

import pytest

from evals.datasets.card import Container, FilePin, Packing
from evals.datasets.readers import parse_json_cell, parse_literal, read_rows
from supervisors.errors import DatasetError


def pin(container: Container = "csv", packing: Packing = "none", **more: object) -> FilePin:
    return FilePin.model_validate({"name": "made/up.csv", "container": container, "packing": packing} | more)


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "/", 1) if name.startswith("dir") else name, data)
        archive.writestr("__MACOSX/._x.jsonl", b"rubbish")
    return buffer.getvalue()


def test_a_byte_order_mark_is_no_part_of_the_first_column() -> None:  # T-01, H-40
    assert read_rows(b"\xef\xbb\xbfid,en\r\n1,kite\r\n", pin()) == [{"id": "1", "en": "kite"}]


def test_line_breaks_inside_cells_stay_and_do_not_end_records() -> None:  # T-02, H-122
    rows = read_rows(b'a,b\r\n"one\ntwo",x\r\n"three\r\nfour",y\r\n', pin())
    assert [row["a"] for row in rows] == ["one\ntwo", "three\r\nfour"]


@pytest.mark.parametrize(
    ("data", "container"),
    [(b"a\nx\ny", "csv"), (b'{"a": "x"}\n{"a": "y"}', "jsonl"), (b"x\ny", "text")],
)
def test_the_last_record_survives_without_a_final_newline(data: bytes, container: Container) -> None:  # T-03
    assert len(read_rows(data, pin(container))) == 2


def test_a_file_without_header_keeps_its_first_row_and_joins_unquoted_commas() -> None:  # T-04
    rows = read_rows(b"Paint a gate\nPaint a gate, then a door\n", pin(header=("goal",), join_cells=True))
    assert [row["goal"] for row in rows] == ["Paint a gate", "Paint a gate, then a door"]


def test_an_unnamed_index_column_is_read() -> None:  # T-04
    assert read_rows(b",Goal\n0,kite\n", pin()) == [{"": "0", "Goal": "kite"}]


@pytest.mark.parametrize("comment", [b"# version=1.0\n", b"# version=1.0,,\n", b"# a\n# b\n# c\n# d\n"])
def test_comment_records_before_the_header_are_skipped(comment: bytes) -> None:  # T-05
    rows = read_rows(comment + b"objective,human_score\n# not a comment,1\n", pin(comment="#"))
    assert rows == [{"objective": "# not a comment", "human_score": "1"}]


def test_missing_trailing_cells_are_missing_and_nothing_shifts() -> None:  # T-06
    assert read_rows(b"a,b,c\n1,2\n", pin()) == [{"a": "1", "b": "2"}]


def test_too_many_cells_are_an_error_that_says_where() -> None:  # T-06
    with pytest.raises(DatasetError, match="record 1 has 3 cells, the header 2"):
        read_rows(b"a,b\n1,2\n1,2,3\n", pin())


def test_a_column_name_that_occurs_twice_is_an_error() -> None:
    with pytest.raises(DatasetError, match="occurs twice"):
        read_rows(b"a,a\n1,2\n", pin())


def test_doubled_quotes_and_json_in_a_cell_survive() -> None:  # H-40
    assert read_rows(b'a\n"{""k"": ""v""}"\n', pin()) == [{"a": '{"k": "v"}'}]


def test_a_cell_of_any_length_is_read() -> None:  # T-16, DS-07
    assert read_rows(b"a\n" + b"x" * 300_000 + b"\n", pin())[0]["a"] == "x" * 300_000


def test_json_lines_end_at_newline_only() -> None:  # DS-07
    text = '{"p": "a\u2028b\u2029c\u0085d"}\n{"p": "e"}\n'
    assert [row["p"] for row in read_rows(text.encode(), pin("jsonl"))] == ["a\u2028b\u2029c\u0085d", "e"]


def test_text_that_looks_missing_stays_text_and_nan_is_missing() -> None:  # T-14, H-41
    assert read_rows(b'[{"a": "NaN"}, {"a": "None"}, {"a": NaN}]', pin("json")) == [
        {"a": "NaN"},
        {"a": "None"},
        {"a": None},
    ]
    assert read_rows(b"a\nNA\nnull\n", pin()) == [{"a": "NA"}, {"a": "null"}]


def test_gz_zip_and_base64_are_unpacked() -> None:  # T-07
    line = b'{"p": "kite"}\n'
    expected = [{"p": "kite"}]
    assert read_rows(gzip.compress(line), pin("jsonl", "gz")) == expected
    assert read_rows(zipped(**{"one.jsonl": line}), pin("jsonl", "zip")) == expected
    assert read_rows(base64.encodebytes(line), pin("jsonl", "b64")) == expected


def test_a_zip_with_several_members_needs_a_name() -> None:  # T-07
    data = zipped(**{"a b=1:2.json": b"[]", "c.json": b'["kite"]'})
    with pytest.raises(DatasetError, match="expected exactly one member, found 2"):
        read_rows(data, pin("json", "zip"))
    assert read_rows(data, pin("json", "zip", member="c.json")) == [{"text": "kite"}]
    with pytest.raises(DatasetError, match=r"expected member 'd\.json'"):
        read_rows(data, pin("json", "zip", member="d.json"))


def test_column_names_may_be_in_any_script() -> None:  # T-07
    assert read_rows("问题,违规类型\nkite,a|b\n".encode(), pin()) == [{"问题": "kite", "违规类型": "a|b"}]


def test_maps_of_lists_are_flattened_in_order() -> None:  # DS-06
    data = b'{"A": {"x:": ["one", "two"]}, "B": {"y": [{"q": "three"}]}}'
    assert read_rows(data, pin("json-map")) == [
        {"key1": "A", "key2": "x:", "text": "one"},
        {"key1": "A", "key2": "x:", "text": "two"},
        {"key1": "B", "key2": "y", "q": "three"},
    ]


def test_a_list_inside_an_object_carries_lifted_facts() -> None:  # DS-06
    data = b'{"parameters": {"model": "m"}, "jailbreaks": [{"prompt": null}]}'
    assert read_rows(data, pin("json-object", root="jailbreaks", lift=("parameters.model", "attack"))) == [
        {"prompt": None, "file.parameters.model": "m", "file.attack": None}
    ]


def test_tsv_and_yaml_are_read() -> None:  # DS-06, H-40
    assert read_rows(b"a\tb\n1,5\t2\n", pin("tsv")) == [{"a": "1,5", "b": "2"}]
    assert read_rows(b"- text: kite\n  label: true\n", pin("yaml")) == [{"text": "kite", "label": True}]


def test_yaml_cannot_run_anything() -> None:  # T-26
    with pytest.raises(DatasetError, match="not valid YAML"):
        read_rows(b"- !!python/object/apply:os.getcwd []\n", pin("yaml"))


@pytest.mark.parametrize(
    ("data", "container", "packing", "message"),
    [
        (b"a\n\xff\xfe\n", "csv", "none", "byte 2 is not UTF-8"),
        (b"", "csv", "none", "has no header"),
        (b'a\n"open', "csv", "none", "is not CSV"),
        (b'{"a": 1}\n{"a": \n', "jsonl", "none", "line 2: is not JSON"),
        (b"[1]", "json", "none", "expected an object or a text, found int"),
        (b'{"a": 1}', "json", "none", "expected a list, found dict"),
        (b"[" * 100_000, "json", "none", "nested too deeply"),
        (b"no gzip", "json", "gz", "cannot be unpacked as gz"),
        (b"no zip", "json", "zip", "cannot be unpacked as zip"),
        (b"no base64!", "json", "b64", "cannot be unpacked as b64"),
    ],
)
def test_broken_bytes_say_what_is_wrong(data: bytes, container: Container, packing: Packing, message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        read_rows(data, pin(container, packing))


def test_python_literals_and_json_cells_are_parsed_and_never_run() -> None:  # T-08
    assert parse_literal("['a', ('b',)]") == ["a", ("b",)]
    assert parse_json_cell('{"category": "kite"}') == {"category": "kite"}
    with pytest.raises(DatasetError, match="not a Python literal"):
        parse_literal("__import__('os').getcwd()")
    with pytest.raises(DatasetError, match="is not JSON"):
        parse_json_cell("{'a': 1}")


@pytest.mark.parametrize("container", ["json-keyed", "yaml-keyed"])
def test_a_map_becomes_rows_with_their_keys_even_where_the_key_is_the_text(container: Container) -> None:
    data = b'{"Dear all,\\nhello": {"attack_attempt": "Unclear"}, "b": {"attack_attempt": "True"}}'
    rows = read_rows(data, pin(container))
    assert [(row["key"], row["attack_attempt"]) for row in rows] == [("Dear all,\nhello", "Unclear"), ("b", "True")]
    with pytest.raises(DatasetError, match="expected a map, found list"):
        read_rows(b"[1]", pin(container))
    with pytest.raises(DatasetError, match=r"at 'a': expected an object or a text, found int"):
        read_rows(b'{"a": 1}', pin(container))


def test_the_texts_of_a_tree_have_paths_and_a_tag_opens_no_file() -> None:  # T-26
    data = b"inbox: !include include/inbox.yaml\nusers: [Ann, {bio: kite}]\nn: 3\n"
    assert read_rows(data, pin("yaml-texts")) == [
        {"path": "inbox", "text": "!include include/inbox.yaml"},
        {"path": "users/0", "text": "Ann"},
        {"path": "users/1/bio", "text": "kite"},
    ]
    evil = b"a: !!python/object/apply:os.system ['echo no']\n"
    with pytest.raises(DatasetError, match="not valid YAML"):
        read_rows(evil, pin("yaml-texts"))
