"""`evals resume` and `evals retry-errors`: continue a run where it stopped."""

from __future__ import annotations

import argparse
from pathlib import Path

from evals.commands.arguments import add_common, find_run
from evals.commands.output import Output, Subparsers
from evals.commands.replay import execute, reopen
from evals.manifest import read_manifest, refuse_imported
from evals.options import read_options
from evals.prepare import prepare


def add_parsers(commands: Subparsers) -> None:
    """Declare the verbs; both do what is missing and what ended in an error, and nothing twice."""
    for name, text in (
        ("resume", "Do what is missing in a run and what ended in an error; nothing that is done is done again."),
        ("retry-errors", "Do the trials of a run again that ended in an error, and those that are missing."),
    ):
        parser = commands.add_parser(
            name,
            help=text.split(";", maxsplit=1)[0].lower(),
            description=text,
            epilog=f"example: evals {name} runs/mine",
        )
        add_common(parser)
        parser.add_argument("name", metavar="RUN", help="name or folder of the run")
        parser.set_defaults(run=run)


def run(args: argparse.Namespace, out: Output) -> int:
    """Continue the run with the options it was started with; the data folder may be another one."""
    folder = find_run(args, out, args.name)
    manifest = read_manifest(folder)
    refuse_imported(manifest, args.command)
    options = read_options(manifest.options)
    given: Path | None = args.data_dir
    if given is not None:
        options = options.with_data_dir(str(given))
    prepared = prepare(options, out.environ)
    return execute(reopen(folder, prepared), prepared, out)
