"""The verbs of ``guardrail-proxy guard`` for cards and their files: list, card, try, pull, verify, remove."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, cast

import yaml

from proxy.arguments import read_seconds, read_text
from proxy.config import Config, load_config, parse_config, read_variable
from proxy.hub import CONTENT_HOSTS, HUB, Hub
from proxy.origins import Links, Package
from proxy.pulling import Origin, Wish, find_source, pull, remove, unknown_card, verify
from proxy.trying import PROBES, Question, describe, try_supervisor
from supervisors.card import list_cards, load_card
from supervisors.embedded.report import describe_guard
from supervisors.embedded.shipped import shipped_weights
from supervisors.encoder import list_encoders, load_encoder
from supervisors.errors import ConfigError, GuardrailError, first_leaf
from supervisors.in_process.cards import list_in_process, load_in_process
from supervisors.lock import read_lock
from supervisors.types import Endpoint, Label

EXIT_OK = 0
EXIT_UNKNOWN = 1
EXIT_DIFFERENT = 1
EXIT_OFFLINE = 3

EMBEDDED: Final = "embedded"
_OFFLINE: Final = ("GUARDRAIL_OFFLINE", "HF_HUB_OFFLINE")
_LOCK: Final = Path("guards.lock")


class Verbs(Protocol):
    """What `argparse` returns from `add_subparsers`; its own name for it is private."""

    def add_parser(self, name: str, *, help: str) -> argparse.ArgumentParser:  # noqa: A002 - its name
        """Add a verb."""
        ...


def add_verbs(verbs: Verbs) -> None:
    """Declare the verbs."""
    listing = verbs.add_parser("list", help="every card: what it judges, how it is reached, its licence, pulled or not")
    card = verbs.add_parser("card", help="print one card")
    card.add_argument("name", help="name of the card")
    _add_try(verbs.add_parser("try", help='ask a guard about a text, e.g. guard try "How do I bake bread?"'))
    pulling = verbs.add_parser("pull", help="fetch a guard's files and lock them by hash")
    _add_pull(pulling)
    checking = verbs.add_parser("verify", help="compare pulled files with the lock")
    checking.add_argument("names", nargs="*", metavar="NAME", help="guards; all by default")
    removing = verbs.add_parser("remove", help="delete a pulled guard and its entry in the lock")
    removing.add_argument("name", help="name of the card")
    for parser in (listing, pulling, checking, removing):
        parser.add_argument("--lock", type=Path, default=_LOCK, metavar="FILE", help="lock file (default guards.lock)")


def _add_try(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", nargs="?", help="text to judge, - reads standard input; without it two built-in probes")
    parser.add_argument("--config", type=Path, metavar="FILE", help="config that holds the supervisor")
    parser.add_argument("--name", metavar="NAME", help="its name in that config")
    parser.add_argument("--card", default=EMBEDDED, metavar="NAME", help="without --config: a card (default embedded)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="an option beside the card, e.g. url=http://…",
    )
    parser.add_argument("--stage", choices=["input", "output"], default="input", help="judge it as a prompt or a reply")
    parser.add_argument("--prompt", default="", metavar="TEXT", help="what the reply answers")
    parser.add_argument(
        "--timeout", type=read_seconds, default=60.0, metavar="SECONDS", help="for each text (default 60)"
    )
    parser.add_argument("--traceback", action="store_true", help="show all of where a supervisor broke, not one line")


def _add_pull(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="name of the card")
    parser.add_argument("--revision", metavar="REV", help="commit, tag or branch instead of the card's")
    parser.add_argument("--accept-licence", metavar="ID", help="id of the licence, exactly as the hub has it")
    parser.add_argument("--dir", metavar="DIR", help="folder below that of the lock file (default guards/NAME)")
    parser.add_argument("--allow-remote-code", action="store_true", help="fetch Python files that the model needs")
    parser.add_argument(
        "--format",
        choices=["onnx", "safetensors"],
        default="onnx",
        help="of an encoder's weights: a graph for route onnx (default), or what route transformers reads",
    )
    parser.add_argument("--token-env", metavar="NAME", help="environment variable with a token for gated repositories")
    parser.add_argument("--package", metavar="NAME", help="take the files from this installed package, not from a hub")
    parser.add_argument(
        "--url", action="append", default=[], metavar="[PATH=]URL", help="take a file from this address; repeatable"
    )
    parser.add_argument(
        "--sha256", action="append", default=[], metavar="HEX", help="hash of the file of each --url, in order"
    )
    parser.add_argument("--hub", default=HUB, metavar="URL", help="address of the hub, or of a mirror")
    parser.add_argument(
        "--content-host",
        action="append",
        default=list(CONTENT_HOSTS),
        metavar="HOST",
        help="host that file bodies may come from",
    )


def run_list(args: argparse.Namespace) -> int:
    """Print one line a card."""
    held = read_lock(args.lock).guards
    rows = [("card", "judges", "route", "format", "licence", "pulled")]
    rows.append((EMBEDDED, "prompt", "in process", "two heads", "Apache-2.0", "in the package"))
    for name in list_cards():
        card = load_card(name)
        rows.append(
            (name, _sides(card.judges), card.route, card.parser, _licence(card), "yes" if name in held else "-")
        )
    for name in list_encoders():
        encoder = load_encoder(name)
        rows.append(
            (
                name,
                _sides(encoder.judges),
                "classifier",
                encoder.activation,
                _licence(encoder),
                "yes" if name in held else "-",
            )
        )
    for name in list_in_process():
        own = load_in_process(name)
        rows.append((name, _sides(own.judges), "in_process", own.family, _licence(own), "yes" if name in held else "-"))
    rows[1:] = sorted(rows[1:])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        _say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return EXIT_OK


def _sides(judges: str) -> str:
    return "prompt, response" if judges == "both" else judges


def _licence(card: Any) -> str:
    return f"{card.licence}{', gated' if card.gated else ''}{', code' if card.remote_code else ''}"


def run_card(args: argparse.Namespace) -> int:
    """Print a card as YAML, without what has its default."""
    if args.name == EMBEDDED:
        for line in describe_guard(shipped_weights().header):
            _say(line)
        return EXIT_OK
    if args.name in list_encoders():
        fields = load_encoder(args.name).model_dump(mode="json", exclude_defaults=True)
    elif args.name in list_cards():
        fields = load_card(args.name).model_dump(mode="json", exclude_defaults=True)
    elif args.name in list_in_process():
        fields = load_in_process(args.name).model_dump(mode="json", exclude_defaults=True)
    else:
        raise unknown_card(args.name)
    _say(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True).rstrip())
    return EXIT_OK


def run_try(args: argparse.Namespace) -> int:
    """Ask, print one JSON line a text, and return 1 if some verdict is unknown."""
    if args.prompt and args.stage == "input":
        msg = "--prompt is what a reply answers: judge one with --stage output, or give the prompt itself as the text"
        raise ConfigError(msg)
    config, name = _find_supervisor(args)
    texts = PROBES if args.text is None else (read_text(args.text),)
    questions = tuple([Question(text, args.stage, args.prompt) for text in texts])
    tell = _show_traceback if args.traceback else _show_failure
    found = asyncio.run(try_supervisor(config, name, questions, args.timeout, tell))
    for text, assessment in zip(texts, found, strict=True):
        probe = {"text": text} if args.text is None else {}
        _say(json.dumps({**probe, **describe(assessment)}, ensure_ascii=False))
    return EXIT_UNKNOWN if any(each.verdict.label is Label.UNKNOWN for each in found) else EXIT_OK


def _show_failure(name: str, error: Exception) -> None:
    """Say what a supervisor raised and where; the proxy's log has the type only, as a message may quote a text."""
    cause: BaseException = error
    if isinstance(error, ExceptionGroup):
        cause = first_leaf(cast("ExceptionGroup[Exception]", error))  # isinstance forgets what is inside
    said = str(cause).replace("\n", " ")
    place = ""
    if not isinstance(cause, GuardrailError):  # nobody raises that on purpose: a developer wants to know where
        frames = traceback.extract_tb(cause.__traceback__)
        place = f" ({frames[-1].filename}, line {frames[-1].lineno}; --traceback shows all)" if frames else ""
    _complain(f"{name}: {type(cause).__name__}{': ' if said else ''}{said}{place}")


def _show_traceback(name: str, error: Exception) -> None:
    _show_failure(name, error)
    sys.stderr.write("".join(traceback.format_exception(error)))


def _find_supervisor(args: argparse.Namespace) -> tuple[Config, str]:
    if args.config is None:
        if args.name is not None:
            msg = "--name is a supervisor of a config: give --config FILE too, or --card NAME instead"
            raise ConfigError(msg)
        config = _config_of(args.card, args.set)
        endpoint: object = getattr(config.supervisors[args.card], "endpoint", None)
        if isinstance(endpoint, Endpoint) and endpoint.url is None:
            msg = f"the card {args.card} is asked at a server: give its address, --set url=http://127.0.0.1:8001/v1"
            raise ConfigError(msg)
        return config, args.card
    if args.set or args.card != EMBEDDED:
        msg = "--card and --set describe a guard of their own: leave them out with --config"
        raise ConfigError(msg)
    config = load_config(args.config)
    if args.name is None and len(config.supervisors) != 1:
        msg = f"--name says which supervisor: {', '.join(sorted(config.supervisors)) or 'there is none'}"
        raise ConfigError(msg)
    return config, args.name or next(iter(config.supervisors))


def _config_of(card: str, options: Sequence[str]) -> Config:
    """Return a config with one guard in it, so that options are read and checked as in a file."""
    entry: dict[str, object] = {"use": "guard", "card": card}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            msg = f"--set takes OPTION=VALUE, not {option!r}"
            raise ConfigError(msg)
        try:
            entry[key] = json.loads(json.dumps(yaml.safe_load(value), default=str))  # a date is meant as it is written
        except (yaml.YAMLError, ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            msg = f"--set {option}: the value is no YAML: {reason}"
            raise ConfigError(msg) from error
    nowhere = {"main": {"base_url": "http://127.0.0.1:9/v1"}}
    try:
        return parse_config(json.dumps({"upstreams": nowhere, "supervisors": {card: entry}}))
    except ConfigError as error:  # the options are those of --card and --set: there is no file with a path in it
        raise ConfigError(str(error).replace(f"supervisors.{card}.", "")) from error


def run_pull(args: argparse.Namespace) -> int:
    """Pull a guard; the one in the package is there already."""
    if args.name == EMBEDDED:
        _say(f"{EMBEDDED} is in the package: nothing to pull")
        return EXIT_OK
    offline = [name for name in _OFFLINE if (read_variable(name) or "0") not in ("", "0", "false")]
    if offline and args.package is None:
        _complain(f"{offline[0]} is set: nothing is fetched")
        return EXIT_OFFLINE
    token = None
    if args.token_env is not None:
        token = read_variable(args.token_env)
        if not token:
            msg = f"--token-env names {args.token_env}, which is not set"
            raise ConfigError(msg)
    wish = Wish(
        args.lock, args.dir or f"guards/{args.name}", args.revision, args.accept_licence, args.allow_remote_code
    )
    if Path(wish.folder).is_absolute() or ".." in Path(wish.folder).parts:
        msg = f"--dir is a folder below that of the lock file, not {wish.folder!r}"
        raise ConfigError(msg)
    source = find_source(args.name, safetensors=args.format == "safetensors")
    pull(replace(source, revision=None) if args.package or args.url else source, wish, _find_origin(args, token), _say)
    return EXIT_OK


def _find_origin(args: argparse.Namespace, token: str | None) -> Origin:
    """Return where the files come from: the hub unless the command says otherwise."""
    if args.package is not None and args.url:
        msg = "give --package or --url, not both"
        raise ConfigError(msg)
    if args.package is not None:
        return Package(args.package)
    if len(args.url) != len(args.sha256):
        msg = f"each --url needs its --sha256: there are {len(args.url)} and {len(args.sha256)}"
        raise ConfigError(msg)
    if args.url:
        return Links(dict(zip(args.url, args.sha256, strict=True)), args.content_host)
    return Hub(args.hub, token, args.content_host)


def run_verify(args: argparse.Namespace) -> int:
    """Compare pulled files with the lock."""
    wrong = list(verify(args.lock, args.names))
    for sentence in wrong:
        _complain(sentence)
    if not wrong:
        held = args.names or read_lock(args.lock).guards
        _say("all files are as locked" if held else f"{args.lock} locks no guard: there is nothing to compare")
    return EXIT_DIFFERENT if wrong else EXIT_OK


def run_remove(args: argparse.Namespace) -> int:
    """Delete a pulled guard."""
    remove(args.lock, args.name)
    return EXIT_OK


VERBS: Final[Mapping[str, Callable[[argparse.Namespace], int]]] = {
    "list": run_list,
    "card": run_card,
    "try": run_try,
    "pull": run_pull,
    "verify": run_verify,
    "remove": run_remove,
}


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _complain(line: str) -> None:
    sys.stderr.write(f"guardrail-proxy guard: {line}\n")
