"""Readers: bytes of a benchmark file to rows, one reader a container (DS-06, DS-07).

Files are read as plain data. Nothing in them is ever run or unpickled, the locale is never asked for an encoding,
and a row is never shifted, dropped or made up.
"""

from __future__ import annotations

import ast
import base64
import binascii
import csv
import gzip
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import yaml

from evals.datasets.card import Container, Packing
from evals.datasets.narrow import is_list, is_object
from supervisors.errors import DatasetError, why_no_yaml

Row = dict[str, object]
"""One record: column name to text (CSV) or to a JSON value. A missing trailing cell is an absent key."""
MAX_BYTES = 1 << 30
"""Largest unpacked file we read; a larger one is a mistake or a zip bomb."""


class Layout(Protocol):
    """What a reader must know of a file; `card.FilePin` has it all."""

    @property
    def name(self) -> str:
        """Path, for messages."""
        ...

    @property
    def container(self) -> Container:
        """Return the container."""
        ...

    @property
    def packing(self) -> Packing:
        """Return how the file is packed."""
        ...

    @property
    def member(self) -> str:
        """Member of a zip; empty means the only one."""
        ...

    @property
    def header(self) -> tuple[str, ...]:
        """Column names of a file without a header."""
        ...

    @property
    def join_cells(self) -> bool:
        """Say whether unquoted commas belong to the one column."""
        ...

    @property
    def comment(self) -> str:
        """Start of the records to skip before the header."""
        ...

    @property
    def root(self) -> str:
        """Dotted path to the list inside an object."""
        ...

    @property
    def lift(self) -> tuple[str, ...]:
        """Dotted paths of the object copied into each row."""
        ...


def read_rows(data: bytes, layout: Layout) -> list[Row]:
    """Parse the bytes of one file into rows, in file order.

    Raises:
        DatasetError: the bytes are not what the layout says; names the file and the place.
    """
    text = _decode(_unpack(data, layout), layout.name)
    return _READERS[layout.container](text, layout)


def column_names(rows: list[Row]) -> tuple[str, ...]:
    """Return every column that occurs in some row, in order of first appearance."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    return tuple(names)


def _unpack(data: bytes, layout: Layout) -> bytes:
    try:
        match layout.packing:
            case "none":
                return data
            case "b64":
                return base64.b64decode(b"".join(data.split()), validate=True)
            case "gz":
                with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                    return _limited(stream.read(MAX_BYTES + 1), layout.name)
            case "zip":
                return _unzip(data, layout)
    except (
        OSError,
        EOFError,
        zlib.error,
        zipfile.BadZipFile,
        binascii.Error,
        RuntimeError,
        NotImplementedError,
    ) as error:
        msg = f"{layout.name}: cannot be unpacked as {layout.packing}: {error}"
        raise DatasetError(msg) from error


def _unzip(data: bytes, layout: Layout) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [
            info.filename
            for info in archive.infolist()
            if not info.is_dir() and not info.filename.startswith("__MACOSX/")
        ]
        wanted = [name for name in names if not layout.member or name == layout.member]
        if len(wanted) != 1:
            asked = f"member {layout.member!r}" if layout.member else "exactly one member"
            msg = f"{layout.name}: expected {asked}, found {len(names)}: {', '.join(names[:12])}"
            raise DatasetError(msg)
        with archive.open(wanted[0]) as stream:
            return _limited(stream.read(MAX_BYTES + 1), layout.name)


def _limited(data: bytes, name: str) -> bytes:
    if len(data) > MAX_BYTES:
        msg = f"{name}: unpacks to more than {MAX_BYTES} bytes"
        raise DatasetError(msg)
    return data


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        msg = f"{name}: byte {error.start} is not UTF-8"
        raise DatasetError(msg) from error


def _read_table(text: str, layout: Layout, delimiter: str) -> list[Row]:
    csv.field_size_limit(2**31 - 1)  # a FORTRESS prompt has 42,455 characters; the default limit is a guess
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        records = [record for record in reader if record]
    except csv.Error as error:
        msg = f"{layout.name}: record near line {reader.line_num} is not CSV: {error}"
        raise DatasetError(msg) from error
    while records and layout.comment and records[0][0].startswith(layout.comment):
        del records[0]
    header = list(layout.header)
    if not header:
        if not records:
            msg = f"{layout.name}: has no header"
            raise DatasetError(msg)
        header = records.pop(0)
    if len(set(header)) != len(header):
        msg = f"{layout.name}: a column name occurs twice in {header}"
        raise DatasetError(msg)
    if layout.join_cells:
        records = [[delimiter.join(record)] for record in records]
    return [_to_row(record, header, number, layout.name) for number, record in enumerate(records)]


def _to_row(record: list[str], header: list[str], number: int, name: str) -> Row:
    if len(record) > len(header):
        msg = f"{name}: record {number} has {len(record)} cells, the header {len(header)}"
        raise DatasetError(msg)
    return dict(zip(header, record, strict=False))


def _read_csv(text: str, layout: Layout) -> list[Row]:
    return _read_table(text, layout, ",")


def _read_tsv(text: str, layout: Layout) -> list[Row]:
    return _read_table(text, layout, "\t")


def _parse_json(text: str, where: str) -> object:
    try:
        return json.loads(text, parse_constant=_missing)
    except RecursionError as error:
        msg = f"{where}: is nested too deeply"
        raise DatasetError(msg) from error
    except ValueError as error:
        place = f": {error.msg} at character {error.pos}" if isinstance(error, json.JSONDecodeError) else ""
        msg = f"{where}: is not JSON{place}"
        raise DatasetError(msg) from error


def _missing(_: str) -> None:
    """Read NaN and Infinity as missing: neither is JSON and neither is a value of ours."""


def _read_jsonl(text: str, layout: Layout) -> list[Row]:
    # Only \n ends a line: U+2028, U+2029 and U+0085 may stand inside a prompt, and str.splitlines would cut there.
    rows: list[Row] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            rows.append(_to_object(_parse_json(line, f"{layout.name} line {number}"), f"{layout.name} line {number}"))
    return rows


def _to_object(value: object, where: str) -> Row:
    """Return a JSON object as a row, a text as a row with the one column ``text``."""
    if isinstance(value, str):
        return {"text": value}
    if is_object(value):
        return {str(key): cell for key, cell in value.items()}
    msg = f"{where}: expected an object or a text, found {type(value).__name__}"
    raise DatasetError(msg)


def _to_list(value: object, where: str) -> list[Row]:
    if not is_list(value):
        msg = f"{where}: expected a list, found {type(value).__name__}"
        raise DatasetError(msg)
    return [_to_object(entry, f"{where} entry {number}") for number, entry in enumerate(value)]


def _read_json(text: str, layout: Layout) -> list[Row]:
    return _to_list(_parse_json(text, layout.name), layout.name)


def _read_json_object(text: str, layout: Layout) -> list[Row]:
    value = _parse_json(text, layout.name)
    rows = _to_list(look_up(value, layout.root), f"{layout.name} at {layout.root!r}")
    lifted = {f"file.{path}": look_up(value, path) for path in layout.lift}
    return [row | lifted for row in rows]


def look_up(value: object, path: str) -> object:
    """Follow a dotted path through JSON objects; None when it leads nowhere."""
    for key in path.split("."):
        if not is_object(value):
            return None
        value = value.get(key)
    return value


def parse_literal(text: str) -> object:
    """Read a Python literal that a file stores as text (InjecAgent, MultiJail, Giskard); nothing is run (T-08).

    Raises:
        DatasetError: it is no literal.
    """
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        msg = f"a cell of {len(text)} characters is not a Python literal"
        raise DatasetError(msg) from error
    return value


def parse_json_cell(text: str) -> object:
    """Read JSON that a file stores as text in a cell (S-Eval ``ext``, ToxicChat moderation; T-08).

    Raises:
        DatasetError: it is not JSON.
    """
    return _parse_json(text, f"a cell of {len(text)} characters")


def _read_json_map(text: str, layout: Layout) -> list[Row]:
    return list(_walk(_parse_json(text, layout.name), (), layout.name))


def _walk(value: object, keys: tuple[str, ...], name: str) -> Iterator[Row]:
    """Yield the entries of the lists at the leaves with their keys in ``key1``, ``key2`` and so on."""
    if is_object(value):
        for key, inner in value.items():
            yield from _walk(inner, (*keys, str(key)), name)
        return
    named: Row = {f"key{number}": key for number, key in enumerate(keys, start=1)}
    for row in _to_list(value, f"{name} at {'/'.join(keys)}"):
        yield named | row


def _keyed(value: object, layout: Layout) -> list[Row]:
    """Return the entries of a map as rows, each with its key in the column ``key``."""
    if not is_object(value):
        msg = f"{layout.name}: expected a map, found {type(value).__name__}"
        raise DatasetError(msg)
    rows: list[Row] = []
    for key, entry in value.items():
        named: Row = {"key": str(key)}
        rows.append(named | _to_object(entry, f"{layout.name} at {str(key)[:40]!r}"))
    return rows


def _read_json_keyed(text: str, layout: Layout) -> list[Row]:
    return _keyed(_parse_json(text, layout.name), layout)


def _read_text(text: str, _: Layout) -> list[Row]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return [{"text": line} for line in lines if line.strip()]


class _PlainLoader(yaml.SafeLoader):
    """Reads plain YAML; a tag of somebody's own becomes the text it stands before, and nothing is built or opened."""


def _as_text(loader: yaml.SafeLoader, _: str, node: yaml.Node) -> str:
    return f"{node.tag} {loader.construct_scalar(node)}" if isinstance(node, yaml.ScalarNode) else node.tag


_PlainLoader.add_multi_constructor("!", _as_text)  # pyright: ignore[reportUnknownMemberType] # types-pyyaml leaves a part open


def _parse_yaml(text: str, layout: Layout) -> object:
    try:
        return yaml.load(text, Loader=_PlainLoader)  # noqa: S506 - a SafeLoader that builds nothing
    except RecursionError as error:
        msg = f"{layout.name}: is nested too deeply"
        raise DatasetError(msg) from error
    except (yaml.YAMLError, ValueError) as error:
        raise DatasetError(why_no_yaml(layout.name, error)) from error


def _read_yaml(text: str, layout: Layout) -> list[Row]:
    value = _parse_yaml(text, layout)
    return _to_list(look_up(value, layout.root) if layout.root else value, layout.name)


def _read_yaml_keyed(text: str, layout: Layout) -> list[Row]:
    return _keyed(_parse_yaml(text, layout), layout)


def _read_yaml_texts(text: str, layout: Layout) -> list[Row]:
    return [{"path": "/".join(path), "text": leaf} for path, leaf in _leaves(_parse_yaml(text, layout), ())]


def _leaves(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the texts of a tree with their paths, depth first."""
    if is_object(value):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif is_list(value):
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, str(number)))
    elif isinstance(value, str):
        yield path, value


_READERS: Mapping[Container, Callable[[str, Layout], list[Row]]] = {
    "csv": _read_csv,
    "tsv": _read_tsv,
    "jsonl": _read_jsonl,
    "json": _read_json,
    "json-object": _read_json_object,
    "json-map": _read_json_map,
    "json-keyed": _read_json_keyed,
    "text": _read_text,
    "yaml": _read_yaml,
    "yaml-keyed": _read_yaml_keyed,
    "yaml-texts": _read_yaml_texts,
}
