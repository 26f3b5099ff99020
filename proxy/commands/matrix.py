"""`guardrail-proxy matrix`: prove what a config catches, place by place, without calling anybody."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path
from typing import Final

import httpx

from proxy.arguments import MadeUp, Subparsers, say_errors, take_config
from proxy.config import Config, load_config, parse_config
from proxy.matrix.cells import LISTED, Outcome
from proxy.matrix.report import has_failed, write_json, write_text
from proxy.matrix.run import ROUTES, MatrixError, run_matrix
from supervisors.errors import ConfigError, GuardrailError, first_leaf

_BUILT_IN: Final = """
upstreams:
  main: {base_url: "http://127.0.0.1:9/v1"}
  claude: {base_url: "http://127.0.0.1:9/v1", vendor: anthropic}
models:
  words: {upstream: main}
  judge: {upstream: main}
  guard: {upstream: main}
  panel: {upstream: main}
  claude: {upstream: claude}
supervisors:
  words: {use: rules, keywords: [canary]}
  judge: {use: judge, model: judge, url: "http://127.0.0.1:9/v1", scopes: [conversation, system, tool_def]}
  guard:
    {use: guard, card: llama-guard-3-8b, url: "http://127.0.0.1:9/v1", scopes: [conversation, system, tool_def]}
  panel:
    use: vote
    strategy: any
    members:
      words: {use: rules, keywords: [canary]}
      judge: {use: judge, model: judge, url: "http://127.0.0.1:9/v1", scopes: [conversation, system, tool_def]}
policies:
  words: {attach: {models: [words, claude]}, input: {forced: [words]}, output: {forced: [words]}}
  judge: {attach: {models: [judge]}, input: {forced: [judge]}, output: {forced: [judge]}}
  guard: {attach: {models: [guard]}, input: {forced: [guard]}, output: {forced: [guard]}}
  panel: {attach: {models: [panel]}, input: {forced: [panel]}, output: {forced: [panel]}}
moderations: {aliases: {words: words, judge: judge, guard: guard, panel: panel}}
"""
"""What the matrix runs without a file: one supervisor of each kind, each alone."""


def add_parser(commands: Subparsers) -> None:
    """Declare the command."""
    text = "place a canary everywhere text can stand and say what the policies catch; calls no model"
    parser = commands.add_parser("matrix", help=text, description=text)
    parser.add_argument("--route", action="append", choices=ROUTES, help="only this route; may be repeated")
    parser.add_argument(
        "--show", action="append", choices=[outcome.value for outcome in Outcome], help="also list these cells"
    )
    parser.add_argument("--json", action="store_true", help="print every cell as JSON")
    take_config(parser, run, required=False, says="config file; without one, our own supervisors")


def built_in() -> Config:
    """Return the config of the matrix without a file."""
    return parse_config(_BUILT_IN)


def run(args: argparse.Namespace) -> int:
    """Print the report; returns 0, 1 when a cell is silent, 2 when the config is wrong, 3 when it cannot be run."""
    logging.basicConfig(level=logging.ERROR)
    try:
        config = built_in() if args.config is None else load_config(args.config, MadeUp())
        matrix = asyncio.run(run_matrix(config, args.route or ROUTES))
    except BaseExceptionGroup as errors:
        return _complain(first_leaf(errors), args.config)
    except (GuardrailError, TimeoutError, OSError, httpx.HTTPError) as error:
        return _complain(error, args.config)
    shown = LISTED | {Outcome(word) for word in args.show or ()}
    sys.stdout.write(write_json(matrix) if args.json else write_text(matrix, shown))
    return 1 if has_failed(matrix) else 0


def _complain(error: BaseException, file: Path | None) -> int:
    """Say in one line what went wrong; returns 2 for a wrong config and 3 for a matrix that did not come to its end."""
    if isinstance(error, ConfigError):
        say_errors(error, file)
        return 2
    said = str(error) if isinstance(error, MatrixError) else f"the matrix failed: {type(error).__name__}: {error}"
    sys.stderr.write(f"error: {said}\n")
    return 3
