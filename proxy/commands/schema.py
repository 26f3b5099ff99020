"""`guardrail-proxy schema`: JSON Schema of the config file."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from proxy.arguments import Subparsers
from proxy.config import Config
from supervisors.errors import ConfigError
from supervisors.plugins import find_plugins, load_kind


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "schema",
        help="print the JSON Schema of the config file",
        description="print the JSON Schema of the config file",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    sys.stdout.write(json.dumps(config_schema(), indent=2) + "\n")
    return 0


def config_schema() -> dict[str, Any]:
    """Return the schema of the tree, with that of every installed supervisor under `$defs`."""
    schema = Config.model_json_schema()
    kinds: dict[str, Any] = {}
    for use, point in sorted(find_plugins().items()):
        try:
            kind: Any = load_kind(point)
        except ConfigError as error:
            sys.stderr.write(f"warning: {error}\n")
            continue
        kinds[use] = kind.model_json_schema() if hasattr(kind, "model_json_schema") else {"type": "object"}
    schema.setdefault("$defs", {})["supervisors"] = kinds
    return schema
