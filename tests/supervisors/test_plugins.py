"""Supervisor kinds of others, and what their authors may get wrong: it hurts whoever uses it, and nobody else."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from proxy.cli import main
from supervisors.errors import ConfigError
from supervisors.plugins import GROUP, load_kind

SOURCES = {
    "broken_import": "import nowhere_to_be_found\n",
    "no_such_class": "",
    "broken_body": "raise KeyError('umbrella')\n",
    "no_assess": "from pydantic import BaseModel\n\nclass Shouting(BaseModel):\n    use: str\n",
    "no_options": "class Shouting:\n    async def assess(self, exchange, context): ...\n",
    "not_async": (
        "from pydantic import BaseModel\n\nclass Shouting(BaseModel):\n    use: str\n"
        "    def assess(self, exchange, context): ...\n"
    ),
    "async_generator": (
        "from pydantic import BaseModel\n\nclass Shouting(BaseModel):\n    use: str\n"
        "    async def assess(self, exchange, context):\n        yield\n"
    ),
    "raises": (
        "from pydantic import BaseModel\n\nclass Shouting(BaseModel):\n    use: str\n"
        "    async def assess(self, exchange, context):\n        return {}['violet']\n"
    ),
    "no_opening": (
        "from pydantic import BaseModel\n\nclass Shouting(BaseModel):\n    use: str\n"
        "    async def assess(self, exchange, context): ...\n"
        "    async def __aenter__(self):\n        raise OSError('no violet')\n"
        "    async def __aexit__(self, *error): ...\n"
    ),
}
SAID = {
    "broken_import": "cannot be loaded: ModuleNotFoundError: No module named 'nowhere_to_be_found'",
    "no_such_class": "cannot be loaded: AttributeError: module 'shout_no_such_class' has no attribute 'Shouting'",
    "broken_body": "cannot be loaded: KeyError: 'umbrella'",
    "no_assess": "cannot be loaded: shout_no_assess:Shouting judges nothing: it needs async def assess",
    "not_async": "cannot be loaded: shout_not_async:Shouting judges nothing: it needs async def assess",
    "async_generator": "cannot be loaded: shout_async_generator:Shouting judges nothing: it needs async def assess",
    "no_options": "cannot be loaded: shout_no_options:Shouting reads no options",
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install every one of them, as pip would."""
    site = tmp_path / "site"
    info = site / "shouts-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shouts\nVersion: 1\n")
    points = "".join([f"{name} = shout_{name}:Shouting\n" for name in SOURCES])
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{points}")
    for name, source in SOURCES.items():
        (site / f"shout_{name}.py").write_text(source)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return tmp_path


def config(folder: Path, use: str) -> str:
    path = folder / f"{use}.yaml"
    path.write_text(
        "upstreams: {main: {base_url: 'http://127.0.0.1:1/v1'}}\n"
        f"supervisors: {{loud: {{use: {use}}}}}\n"
        "policies: {default: {input: {forced: [loud]}}}\n"
    )
    return str(path)


@pytest.mark.parametrize("name", SAID)
def test_a_class_that_cannot_be_used_is_a_line_for_who_uses_it(
    installed: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for command in ("validate", "serve"):
        assert main([command, config(installed, name)]) == 2
        said = capsys.readouterr().err
        assert f"supervisors.loud: {name}: {SAID[name]}" in said
        assert "Traceback" not in said


def test_it_harms_nobody_else(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    shown = capsys.readouterr()
    kinds = json.loads(shown.out)["$defs"]["supervisors"]
    assert "rules" in kinds
    assert "raises" in kinds
    assert not SAID.keys() & kinds.keys()
    assert sorted([line.split(":")[1].strip() for line in shown.err.splitlines()]) == sorted(SAID)
    assert main(["validate", config(installed, "raises")]) == 0


def test_an_author_sees_where_assess_broke(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guard", "try", "--config", config(installed, "raises"), "--name", "loud", "HELLO"]) == 1
    shown = capsys.readouterr()
    assert '"label": "unknown"' in shown.out
    (line,) = shown.err.splitlines()
    assert line.startswith("guardrail-proxy guard: loud: KeyError: 'violet' (")
    assert line.endswith("shout_raises.py, line 6; --traceback shows all)")


PANELS = {
    "a vote": "{use: vote, strategy: any, members: {a: {use: raises}, b: {use: rules, keywords: [violet]}}}",
    "a cascade": "{use: cascade, steps: [{supervisor: {use: raises}, name: a}]}",
    "a vote in a cascade": "{use: cascade, steps: [{supervisor: {use: vote, strategy: any, members: {a: raises}}}]}",
}


@pytest.mark.parametrize("panel", PANELS)
def test_an_author_sees_which_member_broke(installed: Path, capsys: pytest.CaptureFixture[str], panel: str) -> None:
    path = installed / "panel.yaml"
    head = "upstreams: {main: {base_url: 'http://127.0.0.1:1/v1'}}\n"
    entry = PANELS[panel].replace("a: raises", "a: {use: raises}")
    path.write_text(f"{head}supervisors: {{panel: {entry}}}\npolicies: {{default: {{input: {{forced: [panel]}}}}}}\n")
    assert main(["guard", "try", "--config", str(path), "HELLO"]) == 1
    member = "panel/step1/a" if "cascade" in PANELS[panel] and "vote" in PANELS[panel] else "panel/a"
    assert f"guardrail-proxy guard: {member}: KeyError: 'violet'" in capsys.readouterr().err


def test_an_author_sees_all_of_it_on_request(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guard", "try", "--config", config(installed, "raises"), "--traceback", "HELLO"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown
    assert "return {}['violet']" in shown


def test_one_that_cannot_be_opened_is_a_line(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["guard", "try", "--config", config(installed, "no_opening"), "HELLO"]) == 2
    said = "guardrail-proxy guard: supervisors.loud: it cannot be opened: OSError: no violet"
    assert capsys.readouterr().err.splitlines() == [said]


def test_a_misspelt_kind_is_told_the_nearest(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", config(installed, "rule")]) == 2
    assert "unknown supervisor kind 'rule'; did you mean 'rules'? installed are: " in capsys.readouterr().err


def test_an_entry_point_to_nothing_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match=r"shouting: cannot be loaded: .* \(entry point nowhere_at_all:Shouting\)"):
        load_kind(EntryPoint("shouting", "nowhere_at_all:Shouting", GROUP))
