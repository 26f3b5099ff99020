"""The documents say what the code does: every setting with its default, every metric, command, kind, code and link."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, cast

import pytest
import yaml
from pydantic import BaseModel
from pydantic_core import to_jsonable_python

import proxy.commands
from evals.cli import build_parser
from evals.datasets.registry import list_cards
from proxy import policy
from proxy.admin import create_admin
from proxy.app import ADAPTERS
from proxy.checks import check_config
from proxy.config import (
    Config,
    KeyConfig,
    LimitsConfig,
    ServerConfig,
    parse_config,
)
from proxy.declared import (
    BypassConfig,
    CacheConfig,
    JournalConfig,
    LocalUpstreamConfig,
    ModelConfig,
    ModerationsConfig,
    TracingConfig,
    UnguardedRoute,
    UpstreamConfig,
)
from proxy.gateway import Gateway
from proxy.metrics import Metrics
from proxy.store.rules import Labels
from supervisors.cascade import Cascade, Step
from supervisors.classifier import Classifier
from supervisors.embedded.guard import EmbeddedGuard
from supervisors.encoder import list_encoders, load_encoder
from supervisors.guard import ModelGuard
from supervisors.hosted.judging import JudgedTexts
from supervisors.judge import Judge
from supervisors.language import Language
from supervisors.moderation import Moderation
from supervisors.plugins import find_plugins
from supervisors.presidio import Presidio
from supervisors.provider import Provider
from supervisors.rules import PatternRule, Rules
from supervisors.self_judge import SelfJudge
from supervisors.topics import Topic, Topics
from supervisors.vote import Vote

HOSTED = sorted(name for name, point in find_plugins().items() if point.value.startswith("supervisors.hosted."))
ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"])
_BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#]+)")
_OPTION = re.compile(r"--[a-z][a-z-]*")

CONFIGURATION: Mapping[str, type[BaseModel]] = {
    "Top level": Config,
    "`server`": ServerConfig,
    "`models.NAME`": ModelConfig,
    "`keys.NAME`": KeyConfig,
    "`policies.NAME`": policy.Policy,
    "`attach`": policy.Attach,
    "`input`": policy.StagePolicy,
    "`scopes.SCOPE`": policy.ScopePolicy,
    "`on_unknown`": policy.UnknownPolicy,
    "`stream`": policy.StreamPolicy,
    "`on_block`": policy.BlockPolicy,
    "`journal`": JournalConfig,
    "`tracing`": TracingConfig,
    "`limits`": LimitsConfig,
    "`bypass`": BypassConfig,
    "`moderations`": ModerationsConfig,
    "`unguarded_routes`": UnguardedRoute,
    "`caches.NAME`": CacheConfig,
}
SUPERVISORS: Mapping[str, type[BaseModel]] = {
    "`rules`": Rules,
    "`rules.patterns`": PatternRule,
    "`language`": Language,
    "`topics`": Topics,
    "`topics.topics`": Topic,
    "`presidio`": Presidio,
    "`judge`": Judge,
    "`self_judge`": SelfJudge,
    "`provider`": Provider,
    "`vote`": Vote,
    "`cascade`": Cascade,
    "`cascade.steps`": Step,
    "The embedded guard": EmbeddedGuard,
}


def page(name: str) -> str:
    return (DOCS / name).read_text("utf-8")


def everything() -> str:
    return "\n".join(file.read_text("utf-8") for file in PAGES)


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> dict[str, str]:
    """Return the second cell by the name in the first, over all tables whose second column has the default."""
    tables = [part for part in re.split(r"\n\n+", text) if re.match(r"\| \w+ \| default \|", part.strip())]
    return dict(re.findall(r"^\| `(\w+)` \| ([^|]*?) \|", "\n".join(tables), re.MULTILINE))


def default_of(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    if field.is_required():
        return "required"
    value: Any = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "see below"
    if value is None:
        return "none"
    plain: Any = to_jsonable_python(sorted(cast("frozenset[str]", value)) if isinstance(value, frozenset) else value)
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    if plain == "":
        return "empty"
    return f"`{plain if isinstance(plain, str) else json.dumps(plain)}`"


def check_table(text: str, model: type[BaseModel]) -> None:
    expected = {name: default_of(model, name) for name in model.model_fields}
    assert rows(text) == expected


@pytest.mark.parametrize("heading", CONFIGURATION)
def test_every_setting_is_documented_with_its_default(heading: str) -> None:
    check_table(sections(page("configuration.md"))[heading], CONFIGURATION[heading])


def test_both_kinds_of_upstream_are_documented_with_their_defaults() -> None:
    http, local = sections(page("configuration.md"))["`upstreams.NAME`"].split("`use: local` is", 1)
    check_table(http, UpstreamConfig)
    check_table(local, LocalUpstreamConfig)


def test_the_output_stage_documents_what_it_has_beyond_the_input_stage() -> None:
    extra = set(policy.OutputPolicy.model_fields) - set(policy.StagePolicy.model_fields)
    assert set(rows(sections(page("configuration.md"))["`output`"])) == extra


def test_no_part_of_the_config_is_left_out_of_this_test() -> None:
    covered: list[type[BaseModel]] = [*CONFIGURATION.values(), UpstreamConfig, LocalUpstreamConfig]
    known = {model.__name__ for model in covered}
    defined = set(Config.model_json_schema()["$defs"]) - {"OutputPolicy", "Secret"}
    assert defined <= known


@pytest.mark.parametrize("heading", SUPERVISORS)
def test_every_option_of_our_supervisors_is_documented_with_its_default(heading: str) -> None:
    check_table(sections(page("supervisors.md"))[heading], SUPERVISORS[heading])


def test_the_options_of_every_hosted_guard_are_documented_with_their_defaults() -> None:
    check_table(sections(page("hosted.md"))["Options of every hosted guard"], JudgedTexts)


@pytest.mark.parametrize("use", HOSTED)
def test_what_a_hosted_guard_has_of_its_own_is_documented_with_its_default(use: str) -> None:
    kind: type[BaseModel] = find_plugins()[use].load()
    own = {name: default_of(kind, name) for name in kind.model_fields}
    common = {name: default_of(JudgedTexts, name) for name in JudgedTexts.model_fields}
    expected = {name: default for name, default in own.items() if common.get(name) != default}
    assert rows(sections(page("hosted.md"))[f"`{use}`"]) == expected


def test_the_options_and_cards_of_classifiers_are_documented() -> None:
    found = sections(page("classifiers.md"))
    check_table(found["Options"], Classifier)
    listed = dict(re.findall(r"^\| `([\w.-]+)` \| (\S+) \|", found["Cards"], re.MULTILINE))
    assert listed == {name: load_encoder(name).hub_id for name in list_encoders()}


@pytest.mark.parametrize("kind", [ModelGuard, Moderation])
def test_every_option_of_guards_is_documented(kind: type[BaseModel]) -> None:
    text = page("guards.md")
    assert [name for name in kind.model_fields if name != "use" and f"`{name}`" not in text] == []


def test_every_kind_of_supervisor_is_documented() -> None:
    documented = re.findall(r"^\| `(\w+)` \|", page("supervisors.md").split("```", 1)[0], re.MULTILINE)
    assert set(documented) == {name for name, point in find_plugins().items() if point.value.startswith("supervisors.")}


def test_every_metric_is_documented_with_its_type_and_no_other() -> None:
    shown = dict(re.findall(r"^\| `(\w+)`(?: J)? \| (\w+) \|", page("metrics.md"), re.MULTILINE))
    families = Metrics("0" * 64, Labels()).collect()
    assert shown == {f.name + ("_total" if f.type == "counter" else ""): f.type for f in families}


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command of both programs with its parser."""
    top = argparse.ArgumentParser(prog="guardrail-proxy")
    commands = top.add_subparsers()
    for module in iter_modules(proxy.commands.__path__):
        import_module(f"proxy.commands.{module.name}").add_parser(commands)
    yield from _walk("guardrail-proxy", top)
    yield from _walk("evals", build_parser())


def _walk(name: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    yield name, parser
    groups: Any = vars(parser)["_subparsers"]  # argparse shows its sub-commands to nobody
    actions = cast("list[Any]", vars(groups)["_group_actions"]) if groups is not None else []
    for action in actions:
        choices = cast("Mapping[str, argparse.ArgumentParser]", action.choices)
        for word, inner in choices.items():
            yield from _walk(f"{name} {word}", inner)


PROGRAMS = dict(parsers())


@pytest.mark.parametrize("command", PROGRAMS)
def test_every_command_and_option_is_documented(command: str) -> None:  # H-48, H-184
    text = everything()
    assert command in text
    options = set(_OPTION.findall(PROGRAMS[command].format_help())) - {"--help"}
    assert [option for option in sorted(options) if f"{option}" not in text] == []


def test_every_data_set_is_documented() -> None:
    text = page("datasets.md")
    assert [listed.id for listed in list_cards() if f"`{listed.id}`" not in text] == []


def test_every_error_code_and_header_is_documented() -> None:
    source = "\n".join(file.read_text("utf-8") for file in sorted((ROOT / "proxy").rglob("*.py")))
    codes = set(re.findall(r"RequestError\(\s*\d{3},\s*\"(\w+)\"", source))
    headers = set(re.findall(r"\"(x-guardrail-[a-z-]+[a-z])\"", source))
    text = everything()
    table = page("proxy.md").partition("## Errors")[2].partition("\n## ")[0]
    assert codes
    assert [code for code in sorted(codes) if f"`{code}`" not in table] == []
    assert [header for header in sorted(headers) if f"`{header}" not in text] == []


def test_every_route_is_documented() -> None:
    gateway = Gateway(parse_config("upstreams: {main: {base_url: http://127.0.0.1:1/v1}}", {}))
    served = {str(getattr(route, "path", "")) for route in create_admin(gateway).routes}
    routes = {path for path in ADAPTERS if path.startswith("/v1/")} | {
        path.split("{")[0].rstrip("/") for path in served if not path.startswith("/docs/")
    }
    text = everything()
    assert [route for route in sorted(routes) if f"`{route}`" not in text] == []


def blocks(language: str, mark: str = "") -> list[Any]:
    found: list[Any] = []
    for file in PAGES:
        for number, (word, info, code) in enumerate(_BLOCK.findall(file.read_text("utf-8"))):
            if word == language and mark in [*info.split(), ""]:
                found.append(pytest.param(code, id=f"{file.stem}-{number}"))
    return found


def made_up(code: str) -> dict[str, str]:
    """Return a value of its own for each variable of the environment that a config names."""
    return {name: f"made-up-{name}".ljust(40, "x") for name in re.findall(r"\{env: (\w+)\}", code)}


@pytest.mark.parametrize("code", blocks("yaml", "config"))
def test_configs_in_the_documents_are_valid(code: str) -> None:
    config = parse_config(code, made_up(code))
    assert [str(finding) for finding in check_config(config) if finding.severity == "error"] == []


def test_a_client_that_reads_the_list_of_models_is_given_one() -> None:
    (code,) = re.findall(r"^```yaml config\n(.*?)^```$", page("clients.md"), re.MULTILINE | re.DOTALL)
    assert list(parse_config(code, made_up(code)).models) == ["assistant"]


@pytest.mark.parametrize("code", blocks("yaml"))
def test_yaml_in_the_documents_parses(code: str) -> None:
    assert yaml.safe_load(code)


@pytest.mark.parametrize("code", blocks("json"))
def test_json_in_the_documents_parses(code: str) -> None:
    assert json.loads(code)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_in_the_documents_compiles(code: str) -> None:
    compile(code, "documentation", "exec")


@pytest.mark.parametrize("code", blocks("python", "run"))
def test_python_in_the_documents_runs(code: str) -> None:
    exec(compile(code, "documentation", "exec"), {"__name__": "documentation"})  # noqa: S102 - our own documents


@pytest.mark.parametrize("code", blocks("sh"))
def test_commands_in_the_documents_exist(code: str) -> None:  # BO-17
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        match words:
            case ["make", target]:
                assert target in targets
            case ["guardrail-proxy" | "evals" as program, *arguments]:
                PROGRAMS[program].parse_args(arguments)  # leaves with SystemExit on a wrong one
            case _:
                pass


@pytest.mark.parametrize("file", PAGES, ids=lambda file: file.name)
def test_links_and_files_named_in_the_documents_exist(file: Path) -> None:
    text = file.read_text("utf-8")
    links = [target for target in _LINK.findall(text) if not (file.parent / target).exists()]
    named = set(re.findall(r"(?<![\w/.-])((?:docs|deploy|proxy|supervisors|evals|bench|tests)/[\w./-]+\.\w+)", text))
    assert links == []
    assert [name for name in sorted(named) if not (ROOT / name).exists() and "*" not in name] == []


OTHERS = """
litellm_guardrail_latency_seconds litellm_guardrail_errors_total litellm_guardrail_requests_total
aisix_guardrail_blocks_total aisix_guardrail_bypasses_total agentgateway_guardrail_checks
guardrails.requests guardrails.errors guardrails.blocked guardrails.active guardrails.request.duration
"""


def test_metrics_of_others_are_mapped_to_ours() -> None:  # operations O-20
    assert [name for name in OTHERS.split() if name not in page("metrics.md")] == []
