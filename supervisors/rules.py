"""Judge without a model: keywords, regular expressions, credentials and personal data, in every variant of a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from supervisors.errors import why_unread
from supervisors.injection import injection_patterns
from supervisors.keywords import prepare_keywords
from supervisors.nearest import did_you_mean
from supervisors.offload import Offload
from supervisors.patterns import Pattern, compile_regex
from supervisors.pii import pii_patterns
from supervisors.scan import Finding, Matcher, Scan, build_matcher, scan_segments
from supervisors.scopes import SCOPES, gravest
from supervisors.secrets import secret_patterns, token_patterns
from supervisors.types import (
    Capability,
    Cause,
    Context,
    Exchange,
    Kind,
    Label,
    Role,
    Scope,
    Segment,
    Span,
    Verdict,
    safe,
    unknown,
)
from supervisors.variants import VARIANTS, Variant

PRESETS: Mapping[str, Callable[[], tuple[Pattern, ...]]] = {
    "secrets": secret_patterns,
    "pii": pii_patterns,
    "injection": injection_patterns,
    "tokens": token_patterns,
}
"""Built-in sets by name; one pattern is named with a dot, e.g. ``pii.email``, those of ``tokens`` as of ``secrets``."""

_THREAD_CHARS = 10_000
_THREAD_STEPS = 20_000_000
"""Above this many characters, or characters times instructions, the scan leaves the event loop (PF-05, X-08)."""

_NOT_ASCII_FACTOR = 4
"""How much longer a character takes in a text that is not plain ASCII."""

_SAFE = safe(score=0.0)


class PatternRule(BaseModel):
    """One regular expression of a rules supervisor.

    Args:
        name: what it is called in messages.
        regex: RE2 syntax: Perl's without look-around and back-references.
        category: category of a finding; None takes the supervisor's.
        max_match_chars: longest match to expect of an expression without a bound; without it such an expression
            judges a stream only at its end.
        loose: search it in the squash, leet, rot13 and reverse variants too, which are in lower case.
        ignore_case: match both cases.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    regex: str = Field(min_length=1)
    category: str | None = None
    max_match_chars: int | None = Field(default=None, gt=0)
    loose: bool = False
    ignore_case: bool = False

    @model_validator(mode="after")
    def _compile_now(self) -> Self:
        compile_regex(self.regex, ignore_case=self.ignore_case)
        return self

    def to_pattern(self, category: str) -> Pattern:
        """Compile it.

        Args:
            category: used when the rule names none.
        """
        regex = compile_regex(self.regex, ignore_case=self.ignore_case)
        widths = [width for width in (regex.max_chars, self.max_match_chars) if width is not None]
        return Pattern(
            self.name,
            self.category or category,
            regex,
            max(widths, default=None),
            ignore_case=self.ignore_case,
            loose=self.loose,
        )


class Rules(BaseModel):
    """Flag texts that hold a phrase or match a pattern; safe means that nothing was found in any variant.

    Args:
        use: the word that selects this kind.
        keywords: words and phrases, found as whole words in any case and disguise.
        keywords_file: text file with one phrase a line; blank lines and lines beginning with ``#`` do not count. It
            is read once, at start, and its lines become `keywords`.
        patterns: regular expressions.
        presets: built-in sets (``secrets``, ``tokens``, ``pii``, ``injection``) or single patterns (``pii.email``).
        category: category of keywords, and of patterns that name none.
        loose: find keywords inside longer words too.
        variants: forms of a text that are searched; leaving some out is a gap.
        scopes: judge only these scopes.
        roles: judge only what these roles wrote; None is all.
        kinds: judge only segments of these kinds; None is all.
        turns: ``last_user`` judges the newest user turn, ``new`` what came after the last assistant turn; both leave
            system text, tool definitions and replies alone. Earlier turns are then not judged.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    local: ClassVar[bool] = True

    use: Literal["rules"] = "rules"
    keywords: tuple[str, ...] = ()
    keywords_file: Path | None = None
    patterns: tuple[PatternRule, ...] = ()
    presets: tuple[str, ...] = ()
    category: str = Field(default="rules", min_length=1)
    loose: bool = False
    variants: tuple[Variant, ...] = Field(default=VARIANTS, min_length=1)
    scopes: tuple[Scope, ...] = Field(default=SCOPES, min_length=1)
    roles: tuple[Role, ...] | None = None
    kinds: tuple[Kind, ...] | None = None
    turns: Literal["all", "last_user", "new"] = "all"

    @field_validator("presets")
    @classmethod
    def _check_presets(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            find_preset(name)
        return names

    @model_validator(mode="before")
    @classmethod
    def _read_file(cls, entry: object) -> object:
        """Take the lines of `keywords_file` for keywords, so that everything that hashes the options sees them."""
        if not isinstance(entry, dict):
            return entry
        options = cast("dict[str, object]", entry)  # keys of a YAML mapping; the fields check the values
        path, listed = options.get("keywords_file"), options.get("keywords", ())
        if not isinstance(path, (str, Path)) or not isinstance(listed, (list, tuple)):
            return options
        given = list(cast("Sequence[object]", listed))
        return {
            **options,
            "keywords": [*given, *[phrase for phrase in _read_phrases(Path(path)) if phrase not in given]],
        }

    @model_validator(mode="after")
    def _prepare_now(self) -> Self:
        if not (self.keywords or self.patterns or self.presets):
            msg = "a rules supervisor looks for nothing: give it keywords, keywords_file, patterns or presets"
            raise ValueError(msg)
        _ = self.matcher  # an empty keyword is an error at start, not at the first request
        return self

    @cached_property
    def matcher(self) -> Matcher:
        """Return everything this supervisor looks for, compiled once."""
        keywords = prepare_keywords(self.keywords, self.variants, loose=self.loose) if self.keywords else None
        patterns = [rule.to_pattern(self.category) for rule in self.patterns]
        presets = {pattern.name: pattern for name in self.presets for pattern in find_preset(name)}
        return build_matcher(keywords, self.category, [*patterns, *presets.values()], self.variants)

    @cached_property
    def _offload(self) -> Offload:
        return Offload()

    @cached_property
    def _all_scopes(self) -> bool:
        return set(self.scopes) == set(SCOPES)

    @property
    def capability(self) -> Capability:
        """Return how it judges a stream: a pattern without a bound has to see the whole text."""
        return "final" if self.matcher.max_chars is None else "incremental"

    def holdback_chars(self) -> int:
        """Return how many characters a stream holds back: the longest finding and the character after it, less one.

        Long ones are not counted: `first_open` says where one may have begun.
        """
        return self.matcher.held_chars or 0

    def first_open(self, text: str) -> int:
        """Return where a finding longer than the hold-back may begin that is not complete; the length if none can."""
        openings = self.matcher.openings
        return len(text) if openings is None else openings.first_open(text)

    async def assess(self, exchange: Exchange, context: Context, /) -> Verdict:
        """Search the segments in scope; large texts in a thread, so that the loop goes on."""
        segments = self._select(exchange)
        if not segments:
            return unknown(Cause.SKIPPED, detail="nothing_in_scope")
        growing = exchange.stage == "output" and not exchange.complete
        chars = sum([len(s.text) * (1 if s.text.isascii() else _NOT_ASCII_FACTOR) for s in segments])
        if chars > _THREAD_CHARS or chars * self.matcher.steps > _THREAD_STEPS:
            search = partial(scan_segments, segments, self.matcher, growing=growing, ended=exchange.ended)
            return _judge(await self._offload.run(chars, search))
        return _judge(scan_segments(segments, self.matcher, growing=growing, ended=exchange.ended))

    def _select(self, exchange: Exchange) -> Sequence[Segment]:
        segments = exchange.judged
        if not self._all_scopes:
            segments = tuple([segment for segment in segments if segment.scope in self.scopes])
        if self.roles is not None:
            segments = tuple([segment for segment in segments if segment.role in self.roles])
        if self.kinds is not None:
            segments = tuple([segment for segment in segments if segment.kind in self.kinds])
        if self.turns != "all" and exchange.stage == "input":
            since = _first_turn(exchange.request, self.turns)
            segments = tuple([s for s in segments if s.scope != "conversation" or s.turn >= since])
        return segments


def _first_turn(request: Sequence[Segment], turns: Literal["last_user", "new"]) -> int:
    """Return the turn from which on the conversation is judged."""
    role, after = ("user", 0) if turns == "last_user" else ("assistant", 1)
    return max([segment.turn for segment in request if segment.role == role], default=-after) + after


def _judge(scan: Scan) -> Verdict:
    if scan.findings:
        return _report(scan)
    if scan.over_limit:
        return unknown(Cause.OVER_LIMIT, detail=",".join(scan.over_limit))
    return unknown(Cause.UNSUPPORTED, detail="media") if scan.unsupported else _SAFE


def _report(scan: Scan) -> Verdict:
    by_scope: dict[Scope, list[Finding]] = {}
    for finding in scan.findings:
        by_scope.setdefault(finding.scope, []).append(finding)
    facts: dict[str, object] = {
        "scopes": {
            scope: {"categories": list(dict.fromkeys([f.category for f in found])), "spans": len(found)}
            for scope, found in by_scope.items()
        },
        "transforms": list(dict.fromkeys([finding.chain for finding in scan.findings])),
    }
    if scan.over_limit:
        facts["over_limit"] = list(scan.over_limit)
    return Verdict(
        Label.UNSAFE,
        score=1.0,
        categories=tuple(dict.fromkeys([finding.category for finding in scan.findings])),
        spans=tuple([Span(f.path, f.start, f.end, f.category) for f in scan.findings]),
        rest=Cause.OVER_LIMIT if scan.over_limit else Cause.UNSUPPORTED if scan.unsupported else None,
        transform=scan.findings[0].chain,
        scope=gravest(by_scope),
        extras=facts,
    )


def find_preset(name: str) -> tuple[Pattern, ...]:
    """Return the patterns of a preset, or the one that a dotted name means.

    Raises:
        ValueError: there is no such preset or pattern.
    """
    group, _, single = name.partition(".")
    patterns = PRESETS[group]() if group in PRESETS else ()
    found = tuple([pattern for pattern in patterns if pattern.name == name]) if single else patterns
    if not found:
        offered = dict.fromkeys([*PRESETS, *[pattern.name for load in PRESETS.values() for pattern in load()]])
        msg = f"unknown preset {name!r}{did_you_mean(name, offered) or ';'} there are: {', '.join(offered)}"
        raise ValueError(msg)
    return found


def _read_phrases(path: Path) -> list[str]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"keywords_file {str(path)!r} cannot be read: {why_unread(path, error)}"
        raise ValueError(msg) from error
    phrases = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not phrases:
        msg = f"keywords_file {str(path)!r} holds no phrase: write one a line"
        raise ValueError(msg)
    return phrases
