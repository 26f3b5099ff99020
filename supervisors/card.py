"""Cards: one description of a guard model, used by any number of supervisors (guards §2)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, NoReturn, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from supervisors.errors import why_unread
from supervisors.nearest import candidates
from supervisors.parsers.reading import Parser, Polarity, Side
from supervisors.parsers.registry import build_parser
from supervisors.taxonomy import Category, Taxonomy, load_taxonomies
from supervisors.templates.template import Template, load_templates

Server = Literal["vllm", "sglang", "tgi", "ollama", "llamacpp", "nim", "cloudflare", "openai"]
Grade = Literal["unsafe", "safe", "unknown"]
Caution = Literal["unsafe", "safe", "controversial"]

_MERGED = ("parser_args", "template_args", "custom_template_args", "criteria", "category_texts")


class Criterion(BaseModel):
    """One question of a guard that is asked several, each in its own call.

    Args:
        text: wording for both sides; a name the model knows itself needs none.
        prompt: wording when a prompt is judged, instead of `text`.
        response: wording when a response is judged, instead of `text`.
        sides: sides it can be asked about.
        polarity: ``yes_is_safe`` for a requirement that good text meets.
        to: canonical categories of a hit; empty asks the taxonomy for the criterion's name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = ""
    prompt: str = ""
    response: str = ""
    sides: tuple[Side, ...] = ("prompt", "response")
    polarity: Polarity = "yes_is_unsafe"
    to: tuple[str, ...] = ()

    def wording(self, side: Side) -> str:
        """Return the text for a side."""
        return (self.prompt if side == "prompt" else self.response) or self.text


class Card(BaseModel):
    """How one guard is addressed, what it answers, and how that is read.

    Args:
        name: id used in configs.
        hub_id: where the weights are published; empty when there are none to load.
        revision: 40 hex digits once known.
        task: what it looks for.
        judges: side it was trained to assess.
        route: API it is called on.
        server: flavour of the server; decides extra parameters.
        template: ``model`` for the server's own chat template, or the name of a built-in one.
        template_args: `chat_template_kwargs`; ``{{criterion}}`` and ``{{criterion_name}}`` are filled in.
        custom_template_args: the same for a criterion that has a text of its own.
        server_args: further members of the request body by server flavour.
        mode: text for the template's ``{{mode}}``.
        content: ``parts`` when the model wants a list of text parts.
        parser: name of the reply format.
        parser_args: arguments of that parser.
        taxonomy: name of a category table, or a table of your own.
        category_texts: descriptions sent with the categories by templates that list them.
        score: where a probability comes from.
        top_logprobs: alternatives asked for.
        threshold: risk from which a score means unsafe.
        threshold_op: whether the threshold itself does.
        decide_by: whether the words or the score decide.
        caution: what a finding of nothing but "needs caution" means.
        max_chars: longest text in one call; longer ones are cut.
        overlap: characters two chunks share.
        max_tokens: output budget.
        criteria: questions it can be asked.
        fanout: questions asked unless the supervisor names others.
        turns: whether it assesses the last turn in context, or the text as one.
        alternate: its template demands alternating turns.
        policy: your policy, for guards that follow one.
        needs_policy: it cannot be used without.
        reasoning_effort: sent as such when set.
        licence: for orientation; the model's own page counts.
        gated: the hub asks for acceptance of terms.
        restricted: the supervisor must name the card in `accept_licence`.
        remote_code: the server has to run code of the model's repository.
        size_mb: size of the weights where known.
        languages: languages it was made for.
        trained_on: data sets it has seen, for the contamination notice.
        notes: what an operator has to know.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    hub_id: str = ""
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    task: tuple[
        Literal["harm", "injection", "jailbreak", "refusal", "pii", "toxicity", "grounding", "tool_use"], ...
    ] = Field(min_length=1)
    judges: Literal["prompt", "response", "both"]
    route: Literal["chat", "completions"]
    server: Server = "vllm"
    template: str = "model"
    template_args: Mapping[str, Any] = Field(default_factory=dict)
    custom_template_args: Mapping[str, Any] = Field(default_factory=dict)
    server_args: Mapping[Server, Mapping[str, Any]] = Field(default_factory=dict[Server, Mapping[str, Any]])
    mode: str = ""
    content: Literal["text", "parts"] = "text"
    parser: str
    parser_args: Mapping[str, Any] = Field(default_factory=dict)
    taxonomy: str | Mapping[str, Category]
    category_texts: Mapping[str, str] = Field(default_factory=dict)
    score: Literal["none", "pair", "codes", "field"] = "none"
    top_logprobs: int = Field(default=20, ge=2, le=20)
    threshold: float = Field(default=0.5, ge=0.0, le=1.0)
    threshold_op: Literal["ge", "gt"] = "ge"
    decide_by: Literal["label", "score"] = "label"
    caution: Caution = "unsafe"
    max_chars: int = Field(ge=300)
    overlap: int = Field(default=256, ge=0)
    max_tokens: int = Field(ge=1)
    criteria: Mapping[str, Criterion] = Field(default_factory=dict)
    fanout: tuple[str, ...] = ()
    turns: Literal["last", "whole"]
    alternate: bool = False
    policy: str = ""
    needs_policy: bool = False
    reasoning_effort: Literal["low", "medium", "high"] | None = None
    licence: str
    gated: bool = False
    restricted: bool = False
    remote_code: bool = False
    size_mb: int | None = None
    languages: tuple[str, ...] = ()
    trained_on: tuple[str, ...] = ()
    notes: str = ""

    @model_validator(mode="after")
    def _check(self) -> Card:
        self._check_score(self.build_parser())
        if isinstance(self.taxonomy, str) and self.taxonomy not in load_taxonomies():
            _refuse(f"unknown taxonomy {self.taxonomy!r}; known are {', '.join(load_taxonomies())}")
        if self.template == "model" and self.route == "completions":
            _refuse("template 'model' needs the chat route; the completions route takes a built-in template")
        template = self.find_template()
        if template is not None and template.route != self.route:
            _refuse(f"template {self.template!r} is for the {template.route} route, not {self.route}")
        unknown = [name for name in self.fanout if name not in self.criteria]
        if unknown:
            _refuse(f"unknown criteria in fanout: {', '.join(unknown)}; the card has {', '.join(self.criteria)}")
        if self.criteria and not self.fanout:
            _refuse(f"a card with criteria names those asked by default in fanout; it has {', '.join(self.criteria)}")
        if self.policy and not (template and template.has_slot("policy")):
            _refuse(f"template {self.template!r} takes no policy")
        if self.overlap * 2 > self.max_chars:
            _refuse(f"overlap {self.overlap} is more than half of max_chars {self.max_chars}")
        return self

    def _check_score(self, parser: Parser) -> None:
        if self.score == "pair" and parser.pair is None:
            _refuse(f"score 'pair' needs a format with two answer words; {self.parser!r} has none")
        if self.score == "codes" and self.parser != "first_code":
            _refuse("score 'codes' needs parser 'first_code'")
        if self.score == "field" and self.parser not in ("float", "result_block"):
            _refuse(f"score 'field' needs a format that states a number; {self.parser!r} has none")
        if self.decide_by == "score" and self.score == "none":
            _refuse("decide_by 'score' needs a score")
        if self.parser == "float" and self.decide_by != "score":
            _refuse("parser 'float' has no words: set score 'field' and decide_by 'score'")

    def build_parser(self) -> Parser:
        """Return the parser with this card's arguments."""
        return build_parser(self.parser, self.parser_args)

    def find_taxonomy(self) -> Taxonomy:
        """Return the category table."""
        if isinstance(self.taxonomy, str):
            return load_taxonomies()[self.taxonomy]
        return Taxonomy(rows=self.taxonomy)

    def find_template(self) -> Template | None:
        """Return the built-in template, None for the server's own.

        Raises:
            ValueError: no such template.
        """
        if self.template == "model":
            return None
        found = load_templates().get(self.template)
        if found is None:
            _refuse(f"unknown template {self.template!r}; known are model, {', '.join(load_templates())}")
        return found


def _refuse(message: str) -> NoReturn:
    raise ValueError(message)


@cache
def _raw_cards() -> Mapping[str, Mapping[str, object]]:
    found: dict[str, Mapping[str, object]] = {}
    for file in sorted((files("supervisors") / "cards").iterdir(), key=lambda entry: entry.name):
        if file.name.endswith(".toml"):
            found.update(tomllib.loads(file.read_text(encoding="utf-8")))
    return MappingProxyType(found)


def list_cards() -> tuple[str, ...]:
    """Return the names of the built-in cards."""
    return tuple(_raw_cards())


def load_card(name: str, own: Mapping[str, Mapping[str, object]] | None = None) -> Card:
    """Build a card by name.

    Args:
        name: a built-in card or one of `own`.
        own: cards of the user's config by name; each may name its `base`, and may take the name of a built-in one.

    Raises:
        ValueError: unknown name, a base that leads back to itself, or a field that is wrong.
    """
    return Card.model_validate({"name": name, **_inherit(name, own or {}, ())})


class UnknownCard(ValueError):
    """There is no card of this name.

    Args:
        name: as given.
        known: names there are.
    """

    def __init__(self, name: str, known: Sequence[str]) -> None:
        names = sorted({*known, "embedded"})  # the guard that needs no server is a card to the reader of a config
        near = " or ".join([repr(one) for one in candidates(name, names)])
        meant = f"did you mean {near}? " if near else ""
        super().__init__(f"unknown card {name!r}; {meant}`guardrail-proxy guard list` names them all")
        self.name = name
        self.known = tuple(known)


def resolve_card(entry: object) -> object:
    """Turn what a supervisor's `card:` may hold, a name or a mapping with `base:`, into the fields of a card."""
    if isinstance(entry, str):
        return {"name": entry, **_inherit(entry, {}, ())}
    if isinstance(entry, Mapping):
        fields = cast("Mapping[str, object]", entry)
        name = fields.get("name") or fields.get("base")
        named = name if isinstance(name, str) else "inline"
        return {"name": named, **_merge(fields, {}, ())}
    return entry


def _inherit(name: str, own: Mapping[str, Mapping[str, object]], seen: tuple[str, ...]) -> dict[str, object]:
    used = f"own {name}" in seen
    mark = f"own {name}" if name in own and not used else f"built-in {name}"
    fields = own[name] if name in own and not used else _raw_cards().get(name)
    if fields is None and used:
        mark = f"own {name}"
    elif fields is None:
        raise UnknownCard(name, [*own, *_raw_cards()])
    if fields is None or mark in seen:
        msg = f"card {name!r} is its own base: {' -> '.join([*seen, mark])}"
        raise ValueError(msg)
    return _merge(fields, own, (*seen, mark))


def _merge(
    fields: Mapping[str, object], own: Mapping[str, Mapping[str, object]], seen: tuple[str, ...]
) -> dict[str, object]:
    """Lay a card's own fields over those of its base; mappings of arguments are merged member by member.

    Nothing is shared with the base: every mapping is copied (GU-04). Changing the parser or its taxonomy drops the
    base's arguments of it.
    """
    base = fields.get("base")
    result: dict[str, object] = {}
    if base is not None:
        if not isinstance(base, str):
            msg = f"base is the name of a card, not {base!r}"
            raise ValueError(msg)
        result = _inherit(base, own, seen)
    changed = {key for key in ("parser", "template", "taxonomy") if key in fields and fields[key] != result.get(key)}
    dropped = {
        *(["parser_args"] if "parser" in changed else []),
        *(["template_args", "custom_template_args", "server_args", "mode"] if "template" in changed else []),
        *(["category_texts"] if "taxonomy" in changed else []),
    }
    result = {key: value for key, value in result.items() if key not in dropped}
    for key, value in fields.items():
        if key in ("base", "name"):
            continue
        under = result.get(key)
        if key in _MERGED and isinstance(value, Mapping) and isinstance(under, Mapping):
            result[key] = {**cast("dict[str, object]", under), **deepcopy(cast("dict[str, object]", value))}
        else:
            result[key] = deepcopy(value)  # pyright: ignore[reportUnknownArgumentType] # narrowed by the test above
    return _read_policy(result)


def _read_policy(fields: dict[str, object]) -> dict[str, object]:
    """Replace `policy_file` by the text of that file."""
    name = fields.pop("policy_file", None)
    if name is None:
        return fields
    if not isinstance(name, str):
        _refuse(f"policy_file is a path, not {name!r}")
    return {**fields, "policy": read_policy_file(name)}


def read_policy_file(name: str) -> str:
    """Return the text of a policy.

    Raises:
        ValueError: the file cannot be read or is empty.
    """
    try:
        text = Path(name).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        msg = f"policy_file {name!r} cannot be read: {why_unread(Path(name), error)}"
        raise ValueError(msg) from error
    if not text:
        msg = f"policy_file {name!r} is empty"
        raise ValueError(msg)
    return text
