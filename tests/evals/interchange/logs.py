"""What the tests of imports share: trimmed logs of real runs of other harnesses, and changed copies of them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOGS = Path(__file__).parents[1] / "fixtures" / "foreign"
"""Made by running inspect_ai 0.3.285, garak 0.17.1 and promptfoo 0.121.20 against the proxy with the fake model."""

Change = Callable[[dict[str, Any]], object]


def change_inspect(target: Path, member: str, change: Change) -> Path:
    """Copy the inspect log with one member changed."""
    with zipfile.ZipFile(LOGS / "inspect.eval") as source, zipfile.ZipFile(target, "w") as copy:
        for name in source.namelist():
            body = json.loads(source.read(name))
            if name == member:
                change(body)
            copy.writestr(name, json.dumps(body))
    return target


def change_garak(target: Path, kind: str, change: Change) -> Path:
    """Copy the garak report with the last line of a kind changed."""
    lines = [json.loads(line) for line in (LOGS / "garak.report.jsonl").read_text("utf-8").splitlines()]
    change([line for line in lines if line["entry_type"] == kind][-1])
    target.write_text("".join([json.dumps(line) + "\n" for line in lines]))
    return target


def change_promptfoo(target: Path, change: Change) -> Path:
    """Copy the promptfoo results changed."""
    body = json.loads((LOGS / "promptfoo.json").read_text())
    change(body["results"])
    target.write_text(json.dumps(body))
    return target
