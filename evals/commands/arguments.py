"""The options that several verbs share, and how they become the options of a run."""

from __future__ import annotations

import argparse
import math
from contextlib import suppress
from pathlib import Path

from evals.commands.output import Output
from evals.datasets.load import DATA_DIR
from evals.folder import RunFolder
from evals.options import RunOptions
from evals.plan import Arm, Ledger
from evals.reasons import reason_of
from evals.replay import Limits
from evals.selection import Selection
from evals.shards import parse_shard
from evals.targets import Sampling
from evals.transforms import find_rules
from supervisors.errors import ConfigError

LEDGERS: tuple[Ledger, ...] = ("shadow", "paired", "off")


def add_common(parser: argparse.ArgumentParser) -> None:
    """Declare what every verb has."""
    parser.add_argument("--json", action="store_true", help="results as JSON on stdout")
    parser.add_argument("--quiet", action="store_true", help="no progress on stderr")
    parser.add_argument("--verbose", action="store_true", help="more on stderr, such as the log of the proxy")
    parser.add_argument("--no-color", action="store_true", help="no colour on a terminal (so does $NO_COLOR)")
    parser.add_argument("--config", type=Path, help="YAML file with defaults for the options of this verb")
    parser.add_argument("--runs-dir", type=Path, help="folder of runs (default: $EVALS_RUNS_DIR or runs)")
    parser.add_argument("--data-dir", type=Path, help="folder of data sets (default: $GUARDRAIL_DATA or data)")


def run_name(text: str) -> str:
    """Return the name of a run: one folder, in that of the runs.

    Raises:
        argparse.ArgumentTypeError: it is none, or a path.
    """
    if text in ("", ".", "..") or "/" in text or "\\" in text:
        msg = f"{text!r} is no name of one folder, such as mine; --runs-dir says where it is made"
        raise argparse.ArgumentTypeError(msg)
    return text


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Declare which items take part."""
    group = parser.add_argument_group("items")
    group.add_argument("--limit", type=int, metavar="N", help="the first N items of each set; 0 means none")
    group.add_argument(
        "--sample", type=int, metavar="N", help="N items of each set, balanced by category, not by truth"
    )
    group.add_argument("--seed", type=int, default=0, help="seed of the sample (default 0)")
    group.add_argument("--item-id", action="append", default=[], metavar="GLOB", help="pattern of ids; repeatable")
    group.add_argument("--category", action="append", default=[], metavar="GLOB", help="pattern of categories")
    group.add_argument("--filter", action="append", default=[], metavar="KEY=VALUE", help="field or column; repeatable")
    group.add_argument("--failing", metavar="RUN", help="items that went wrong in an earlier run")
    group.add_argument("--errors-only", metavar="RUN", help="items that ended in an error in an earlier run")
    group.add_argument(
        "--transform", action="append", default=[], metavar="NAME", help="every item also in this form; repeatable"
    )
    group.add_argument("--accept-drift", action="store_true", help="use files that differ from their card; recorded")


def add_running(parser: argparse.ArgumentParser) -> None:
    """Declare how a run is carried out."""
    group = parser.add_argument_group("running")
    group.add_argument("--repeats", type=int, default=1, metavar="R", help="send every item R times (default 1)")
    group.add_argument("--concurrency", default="auto", metavar="N|auto", help="trials in flight (default auto)")
    group.add_argument("--rate", type=float, metavar="RPM", help="trials started a minute")
    group.add_argument("--timeout", type=float, default=300.0, metavar="S", help="of one call (default 300)")
    group.add_argument("--deadline", type=float, default=600.0, metavar="S", help="of one trial (default 600)")
    group.add_argument("--max-retries", type=int, default=5, metavar="N", help="further attempts (default 5)")
    group.add_argument("--max-errors", metavar="N|P%", default="20%", help="stop after so many errors (default 20%%)")
    group.add_argument("--max-cost", type=float, metavar="USD", help="start nothing more once this is spent")
    group.add_argument("--max-run-tokens", type=int, metavar="N", help="start nothing more once so many are used")
    group.add_argument("--max-run-s", type=float, metavar="S", help="start nothing more after so many seconds")
    group.add_argument("--price", metavar="IN:OUT", help="US dollars for a million input and output tokens")
    group.add_argument("--allow-unpriced", action="store_true", help="--max-cost with a model without price")
    group.add_argument("--hash-only", action="store_true", help="write no text anywhere, only hashes")
    group.add_argument("--dry-run", action="store_true", help="validate and plan, make no call")
    group.add_argument("--yes", action="store_true", help="ask nothing")
    group.add_argument(
        "--run-name", type=run_name, metavar="NAME", help="folder of the run; an existing run is continued"
    )
    group.add_argument("--force-new", action="store_true", help="start anew beside an existing run of that name")
    group.add_argument("--shard", metavar="I/N", help="only this part of the plan; `evals merge` unites them")
    group.add_argument("--tag", action="append", default=[], metavar="K=V", help="kept in the manifest; repeatable")
    group.add_argument("--allow-contaminated", action="store_true", help="headline on data the guard was trained on")


def add_target(parser: argparse.ArgumentParser) -> None:
    """Declare what is asked, and how."""
    group = parser.add_argument_group("target")
    group.add_argument(
        "--target", default="fake", help="fake, local, recorded:FILE[#MODEL] or URL#MODEL (default fake)"
    )
    group.add_argument("--api-key-env", metavar="NAME", help="variable that holds the key of a URL target")
    group.add_argument("--temperature", type=float, default=0.0, help="default 0")
    group.add_argument("--max-tokens", type=int, default=256, help="output budget (default 256)")
    group.add_argument("--reasoning-effort", metavar="WORD", help="sent as it is: none, low, medium, high")
    group.add_argument("--system", type=Path, metavar="FILE", help="system prompt put before every conversation")
    group.add_argument("--composition", metavar="RULE", help="how fields become messages (default: the card's)")
    group.add_argument("--cache", type=Path, metavar="DIR", help="take finished trials from here, and keep them here")
    group.add_argument("--ledger", choices=LEDGERS, default="shadow", help="calls made of each item (default shadow)")


def add_guard(parser: argparse.ArgumentParser) -> None:
    """Declare what supervises."""
    group = parser.add_argument_group("supervision")
    group.add_argument(
        "--guard", "--policy", type=Path, metavar="POLICY", help="policy file (default: the embedded guard)"
    )
    group.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="ask only this supervisor of the policy; repeatable"
    )
    group.add_argument("--proxy", metavar="URL", help="a running proxy instead of one in this process")
    group.add_argument("--proxy-key-env", metavar="NAME", help="variable that holds an admin key of that proxy")


def runs_dir(args: argparse.Namespace, out: Output) -> Path:
    """Return the folder of runs."""
    given: Path | None = args.runs_dir
    return given or Path(out.environ.get("EVALS_RUNS_DIR") or "runs")


def data_dir(args: argparse.Namespace, out: Output) -> Path:
    """Return the folder of data sets."""
    given: Path | None = args.data_dir
    return given or Path(out.environ.get("GUARDRAIL_DATA") or DATA_DIR)


def check_limits(max_p95: float | None, max_cost: float | None) -> None:
    """Refuse limits that nothing can keep.

    Raises:
        ConfigError: one is no number, or below 0, or the time is 0.
    """
    if max_p95 is not None:
        check_number("--max-p95", max_p95, 0, above=True)
    if max_cost is not None:
        check_number("--max-cost", max_cost, 0)


def find_run(args: argparse.Namespace, out: Output, name: str) -> RunFolder:
    """Return the folder of a run by name or path.

    Raises:
        ConfigError: there is none.
    """
    for path in (Path(name), runs_dir(args, out) / name):
        with suppress(OSError):  # a name that no file can have names no run
            if (path / "manifest.json").is_file():
                return RunFolder(path)
    msg = f"no run {name!r}; `evals list runs` shows those in {runs_dir(args, out)}"
    raise ConfigError(msg)


def to_selection(args: argparse.Namespace, only: tuple[str, ...] | None) -> Selection:
    """Return the items wanted."""
    return Selection(
        limit=args.limit,
        sample=args.sample,
        seed=args.seed,
        item_ids=tuple(args.item_id),
        categories=tuple(args.category),
        filters=tuple(args.filter),
        only=only,
    )


def to_options(
    args: argparse.Namespace, out: Output, only: tuple[str, ...] | None, *, arms: Arm | None = None
) -> RunOptions:
    """Return the options of a run.

    Raises:
        ConfigError: an option's value, with what would be right.
    """
    system: Path | None = getattr(args, "system", None)
    share, count = _errors(args.max_errors)
    tokens: int | None = args.max_run_tokens
    return RunOptions(
        sets=tuple(args.sets),
        data_dir=str(data_dir(args, out)),
        target=getattr(args, "target", "fake"),
        guard=None if args.guard is None else str(args.guard),
        asked=tuple(args.only),
        ledger=getattr(args, "ledger", "off"),
        arms=arms,
        selection=to_selection(args, only),
        sampling=Sampling(
            check_number("--temperature", getattr(args, "temperature", 0.0), 0),
            _at_least("--max-tokens", getattr(args, "max_tokens", 256), 1),
            None if system is None else _read(system),
            getattr(args, "reasoning_effort", None),
        ),
        composition=args.composition,
        repeats=_at_least("--repeats", args.repeats, 1),
        proxy=args.proxy,
        api_key_env=getattr(args, "api_key_env", None),
        proxy_key_env=args.proxy_key_env,
        price=_price(args.price),
        allow_unpriced=args.allow_unpriced,
        concurrency=_concurrency(args.concurrency),
        timeout_s=_above("--timeout", args.timeout),
        max_retries=_at_least("--max-retries", args.max_retries, 0),
        limits=Limits(
            deadline_s=_above("--deadline", args.deadline),
            rate_rpm=None if args.rate is None else _above("--rate", args.rate),
            max_cost=None if args.max_cost is None else check_number("--max-cost", args.max_cost, 0),
            max_errors=count,
            max_error_share=share,
            max_run_tokens=None if tokens is None else _at_least("--max-run-tokens", tokens, 0),
            max_run_s=None if args.max_run_s is None else check_number("--max-run-s", args.max_run_s, 0),
        ),
        hash_only=args.hash_only,
        accept_drift=args.accept_drift,
        allow_contaminated=args.allow_contaminated,
        origin="direct" if arms == "check" else "replay",
        tags=_tags(args.tag),
        transforms=tuple([rule.name for rule in find_rules(args.transform)]) if hasattr(args, "transform") else (),
        shard=None if args.shard is None else str(parse_shard(args.shard)),
        cache=_cache(args),
    )


def _cache(args: argparse.Namespace) -> str | None:
    folder: Path | None = getattr(args, "cache", None)
    if folder is not None and args.proxy is not None:
        msg = "--cache goes without --proxy: the policy of a running proxy is in no trial's key and may change unseen"
        raise ConfigError(msg)
    return None if folder is None else str(folder)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        msg = f"--system {path}: cannot be read: {reason_of(error)}"
        raise ConfigError(msg) from error


def check_number(option: str, value: float, least: float, *, above: bool = False, most: float = math.inf) -> float:
    """Return the number of an option.

    Args:
        option: its name.
        value: as given.
        least: smallest number allowed.
        above: it has to be larger than `least`.
        most: largest number allowed.

    Raises:
        ConfigError: it is no number, or out of its range; not a number is neither.
    """
    if not (least < value if above else least <= value) or not value <= most or math.isinf(value):
        span = f"above {least:g}" if above else f"at least {least:g}"
        limit = "" if math.isinf(most) else f" and at most {most:g}"
        msg = f"{option} is {value:g}, expected a number {span}{limit}"
        raise ConfigError(msg)
    return value


def _above(option: str, value: float) -> float:
    return check_number(option, value, 0, above=True)


def _at_least(option: str, value: int, least: int) -> int:
    if value < least:
        msg = f"{option} is {value}, expected at least {least}"
        raise ConfigError(msg)
    return value


def _concurrency(text: str) -> int | None:
    if str(text) == "auto":
        return None
    if not str(text).isdecimal() or not 1 <= int(text) <= 1000:
        msg = f"--concurrency {text}: expected auto or a number from 1 to 1000"
        raise ConfigError(msg)
    return int(text)


def _errors(text: str) -> tuple[float, int | None]:
    """Return share and number of errors that stop a run."""
    digits = str(text).removesuffix("%")
    if not digits.isdecimal() or (str(text).endswith("%") and int(digits) > 100):
        msg = f"--max-errors {text}: expected a number such as 10, or a share such as 20%"
        raise ConfigError(msg)
    return (int(digits) / 100, None) if str(text).endswith("%") else (1.0, int(digits))


def _price(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    left, _, right = text.partition(":")
    try:
        found = (float(left), float(right))
    except ValueError:
        found = (-1.0, -1.0)
    if not all(0 <= one < math.inf for one in found):
        msg = f"--price {text}: expected IN:OUT in US dollars for a million tokens, such as 0.15:0.60"
        raise ConfigError(msg)
    return found


def _tags(given: list[str]) -> dict[str, str]:
    tags: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            msg = f"--tag {text}: expected K=V"
            raise ConfigError(msg)
        tags[name] = value
    return tags
