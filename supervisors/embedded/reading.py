"""Read public benchmark files from a data folder; nothing here keeps or copies their text elsewhere."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from supervisors.errors import DatasetError

csv_limit = 10_000_000
"""Longest cell accepted, characters; the module default of `csv` is too short for jailbreak templates."""


@dataclass(frozen=True, slots=True)
class Row:
    """One training text with its label a head: 1 positive, 0 negative, None not used for that head."""

    text: str
    harm: int | None
    injection: int | None


def read_bytes(data: Path, name: str) -> bytes:
    """Return the content of one file of the data folder, gunzipped if its name ends in ``.gz``.

    Raises:
        DatasetError: the file is absent.
    """
    path = data / name
    if not path.is_file():
        msg = f"{name} is missing in the data folder {data}"
        raise DatasetError(msg)
    content = path.read_bytes()
    return gzip.decompress(content) if name.endswith(".gz") else content


def read_table(data: Path, name: str) -> list[dict[str, str]]:
    """Return the records of a CSV file with a header row."""
    csv.field_size_limit(csv_limit)
    text = read_bytes(data, name).decode("utf-8-sig")
    return [dict(row) for row in csv.DictReader(io.StringIO(text, newline=""))]


def read_lines(data: Path, name: str) -> list[Mapping[str, Any]]:
    """Return the objects of a JSON-lines file."""
    text = read_bytes(data, name).decode()
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def read_json(data: Path, name: str) -> object:
    """Return the content of a JSON file."""
    return cast("object", json.loads(read_bytes(data, name)))


def read_column(data: Path, name: str, column: str) -> list[str]:
    """Return one column of a CSV file."""
    return [row[column] for row in read_table(data, name)]


def flatten_texts(value: object) -> Iterable[str]:
    """Yield every string of nested lists and mappings, in file order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in cast("Mapping[str, object]", value).values():
            yield from flatten_texts(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from flatten_texts(inner)


def hash_file(data: Path, name: str) -> str:
    """Return the sha256 of a file as it lies on disk."""
    path = data / name
    if not path.is_file():
        msg = f"{name} is missing in the data folder {data}"
        raise DatasetError(msg)
    return hashlib.sha256(path.read_bytes()).hexdigest()
