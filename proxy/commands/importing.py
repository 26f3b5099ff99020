"""`guardrail-proxy import litellm FILE`: write our config for another gateway's, and report on each setting."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml

from proxy.arguments import Subparsers
from proxy.checks import check_config
from proxy.config import parse_config
from proxy.importing.litellm import Imported, import_litellm, looks_like_ours
from proxy.importing.notes import Outcome
from proxy.wire.segments import as_list, as_object
from supervisors.errors import ConfigError, why_no_yaml


class _Plain(yaml.SafeDumper):
    """Write equal parts out each time: a reader of a config should not have to follow anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Say that nothing is written as an alias."""
        return True


EXIT_INCOMPLETE = 1
EXIT_USAGE = 2


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    text = "write our config for another gateway's"
    parser = commands.add_parser("import", help=text, description=text)
    parser.add_argument("source", choices=["litellm"], help="whose config it is")
    parser.add_argument("file", type=Path, help="config of a LiteLLM proxy")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where our config goes (default: standard output)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="where the report goes (default: standard error)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Import; returns 0 when everything has a counterpart, 1 when something has none, 2 when the file is unreadable."""
    path: Path = args.file
    try:
        tree = as_object(yaml.safe_load(path.read_text("utf-8-sig")))
    except yaml.YAMLError as error:
        sys.stderr.write(f"error: {why_no_yaml(path, error)}\n")
        return EXIT_USAGE
    except (OSError, UnicodeDecodeError) as error:
        sys.stderr.write(f"error: cannot read {path}: {' '.join(str(error).split())}\n")
        return EXIT_USAGE
    if tree is None:
        sys.stderr.write(f"error: {path} holds no mapping; a LiteLLM config has guardrails and model_list\n")
        return EXIT_USAGE
    if looks_like_ours(tree):
        sys.stderr.write(f"error: {path}: this is not a LiteLLM config but one of this proxy; serve it as it is\n")
        return EXIT_USAGE
    if args.out is not None and args.out.exists():
        sys.stderr.write(f"error: {args.out} exists already; name another file\n")
        return EXIT_USAGE
    imported = import_litellm(tree, path.parent)
    text = to_yaml(imported, path.name)
    _check(imported, text)
    lines = "".join([f"{line}\n" for line in imported.report.lines()])
    if args.report is None:
        sys.stderr.write(lines)
    else:
        args.report.write_text(lines, "utf-8")
    if args.out is None:
        sys.stdout.write(text)
    else:
        args.out.write_text(text, "utf-8")
    return 0 if imported.report.complete else EXIT_INCOMPLETE


def to_yaml(imported: Imported, source: str) -> str:
    """Return our config as a file."""
    head = f"# Written by 'guardrail-proxy import litellm {source}'; read its report before you serve this.\n"
    return head + yaml.dump(dict(imported.config), Dumper=_Plain, sort_keys=False, allow_unicode=True, width=110)


def _check(imported: Imported, text: str) -> None:
    """Report what `validate` would find, so that no file is written that nobody could serve."""
    environ = dict.fromkeys(_find_names(imported.config), "made-up".ljust(40, "x"))
    try:
        config = parse_config(text, environ)
    except ConfigError as error:
        for line in str(error).splitlines():
            outcome: Outcome = "changed" if "needs the extra" in line else "unmapped"
            imported.report.add(outcome, "written config", line)
        return
    for finding in check_config(config):
        found: Outcome = "unmapped" if finding.severity == "error" else "changed"
        imported.report.add(found, "written config", str(finding))


def _find_names(value: Any) -> list[str]:
    mapping, items = as_object(value), as_list(value)
    if mapping is not None and list(mapping) == ["env"]:
        return [str(mapping["env"])]
    return [name for child in (mapping.values() if mapping is not None else items or []) for name in _find_names(child)]
