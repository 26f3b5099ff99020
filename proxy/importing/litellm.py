"""Turn a LiteLLM proxy config into ours, with a report on every setting of a guardrail (guarding §4.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proxy.importing.guardrails import Guardrail, read_guardrail, to_reference, to_secret
from proxy.importing.notes import Entry, Report
from proxy.importing.policies import Written, write_policies
from proxy.wire.segments import as_list, as_object
from supervisors.nearest import did_you_mean

_PLACEHOLDER = "http://127.0.0.1:8000/v1"
_GUARDING = frozenset(
    {
        *("presidio", "hide_secrets", "lakera_prompt_injection", "detect_prompt_injection", "llmguard_moderations"),
        *("llamaguard_moderations", "google_text_moderation", "openai_moderations", "aporia_prompt_injection"),
        *("azure_content_safety", "banned_keywords", "blocked_user_check"),
    }
)
"""Callbacks of `litellm_settings` that guard."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import came to.

    Args:
        config: tree of our config, to be dumped as YAML.
        report: what became of every setting.
    """

    config: Mapping[str, Any]
    report: Report


def import_litellm(tree: Mapping[str, Any], folder: Path) -> Imported:
    """Map a config; pure but for the word lists it names.

    Args:
        tree: the file as a mapping.
        folder: its folder.
    """
    report = Report()
    top = Entry("config", tree, report)
    config: dict[str, Any] = {}
    _read_models(top, config)
    _read_general(top, config)
    written = Written(report)
    guardrails = _read_guardrails(top, folder, written)
    for name, found in guardrails.items():
        _write_supervisors(name, found, written)
    for found in guardrails.values():
        written.place(found.name, found, {}, forced=found.forced)
    write_policies(top, guardrails, written)
    _read_settings(top)
    for name in tree:
        if name in _OTHER:
            report.add("left", name, "not looked at")
        elif name not in _READ:
            text = (
                f"no setting of a LiteLLM config that we know, so it was not read{did_you_mean(name, _READ | _OTHER)}"
            )
            report.add("unmapped", name, text)
    if not (guardrails or written.policies or report.has("unmapped")):
        report.add("unmapped", "guardrails", "the file has none, so nothing is written that judges anything")
    if written.supervisors:
        config["supervisors"] = written.supervisors
        config["policies"] = written.policies
    return Imported(config, report)


_READ = frozenset(
    {"model_list", "general_settings", "litellm_settings", "guardrails", "policies", "policy_attachments"}
)


_OTHER = frozenset(
    {
        *("router_settings", "environment_variables", "callback_settings", "credential_list", "vector_store_registry"),
        *("files_settings", "finetune_settings", "assistant_settings", "default_vertex_config", "search_tools"),
        *("mcp_servers", "mcp_aliases", "mcp_tools", "prompts", "cache_params", "worker_registry", "agent_list"),
    }
)
"""Top-level settings of a LiteLLM config that guard nothing."""

_OURS = frozenset({"upstreams", "supervisors", "unguarded_routes", "journal", "input", "output"})


def looks_like_ours(tree: Mapping[str, Any]) -> bool:
    """Say whether a file is a config of this proxy rather than of LiteLLM."""
    return bool(_OURS & set(tree)) and not {"model_list", "litellm_settings", "guardrails"} & set(tree)


def _read_models(top: Entry, config: dict[str, Any]) -> None:
    upstreams: dict[str, Any] = {}
    models: dict[str, Any] = {}
    for index, value in enumerate(as_list(top.take("model_list")) or []):
        entry = Entry(f"model_list[{index}]", as_object(value) or {}, top.report)
        name, params = str(entry.take("model_name")), as_object(entry.take("litellm_params")) or {}
        if name in models:
            top.report.add("unmapped", entry.path, f"a second deployment of {name!r}: a model has one upstream")
            continue
        read = Entry(f"{entry.path}.litellm_params", params, top.report)
        upstream, model = _read_upstream(read)
        key = (
            next((key for key, known in upstreams.items() if known == upstream), None)
            or f"upstream{len(upstreams) + 1}"
        )
        upstreams[key] = upstream
        to_secret(params.get("api_key"), read, "api_key", f"upstreams.{key}.api_key")  # for the report
        models[name] = {"upstream": key} if model == name else {"upstream": key, "model": model}
        top.report.add("mapped", entry.path, f"models.{name}")
    if not upstreams:
        upstreams["main"] = {"base_url": _PLACEHOLDER}
        top.report.add(
            "changed", "model_list", f"no model in the file: upstreams.main is {_PLACEHOLDER}; write your own"
        )
    config["upstreams"] = upstreams
    if models:
        config["models"] = models


def _read_upstream(params: Entry) -> tuple[dict[str, Any], str]:
    vendor, _, rest = str(params.take("model") or "").partition("/")
    vendor, model = (vendor, rest) if rest else ("openai", vendor)
    base = params.take("api_base")
    secret = to_reference(params.take("api_key"))
    upstream: dict[str, Any] = {}
    if isinstance(base, str) and base.startswith("os.environ/"):
        params.report.add("unmapped", f"{params.path}.api_base", "an address comes from the file, not the environment")
        base = _PLACEHOLDER
    if vendor in ("openai", "hosted_vllm", "openai_like", "lm_studio") or base is not None:
        upstream["base_url"] = base or "https://api.openai.com/v1"
    if vendor not in ("openai", "hosted_vllm", "openai_like", "lm_studio"):
        upstream["vendor"] = vendor
    upstream |= {"api_key": secret} if secret is not None else {}
    timeout, retries = params.take("timeout"), params.take("num_retries")
    upstream |= {"timeout_s": float(timeout)} if isinstance(timeout, int | float) else {}
    upstream |= {"retries": min(int(retries), 5)} if isinstance(retries, int) else {}
    for name in params.members:
        if name not in ("model", "api_base", "api_key", "timeout", "num_retries"):
            params.report.add("left", f"{params.path}.{name}", "not looked at")
    return upstream, model


def _read_general(top: Entry, config: dict[str, Any]) -> None:
    general = Entry("general_settings", as_object(top.take("general_settings")) or {}, top.report)
    secret = to_secret(general.take("master_key"), general, "master_key", "keys.master.key")
    if secret is not None:
        config["keys"] = {"master": {"key": secret, "admin": True}}
    for name in general.members:
        if name != "master_key":
            top.report.add("left", f"general_settings.{name}", "not looked at")


def _read_settings(top: Entry) -> None:
    settings = as_object(top.take("litellm_settings")) or {}
    for name, value in settings.items():
        path = f"litellm_settings.{name}"
        listed = {str(one) for one in as_list(value) or []}
        if name == "guardrails":
            top.report.add("unmapped", path, "the old form of guardrails: write them under the top-level guardrails")
        elif listed & _GUARDING:
            text = f"the callbacks {', '.join(sorted(listed & _GUARDING))} guard: write them as guardrails"
            top.report.add("unmapped", path, text)
        else:
            top.report.add("left", path, "not looked at")


def _read_guardrails(top: Entry, folder: Path, written: Written) -> dict[str, Guardrail]:
    """Return the guardrails by the name in the file; equal names become one that tries them in order.

    Names that differ in the file differ in ours, even if they are the same words.
    """
    found: dict[str, Guardrail] = {}
    for index, value in enumerate(as_list(top.take("guardrails")) or []):
        path = f"guardrails[{index}]"
        guardrail = read_guardrail(path, value, folder, top)
        if guardrail is None:
            continue
        name = str((as_object(value) or {}).get("guardrail_name"))
        known = found.get(name)
        if known is None:
            taken = {one.name for one in found.values()}
            found[name] = replace(guardrail, name=written.find_free(guardrail.name, taken))
        elif _may_stand_in(known, guardrail):
            found[name] = replace(known, judged=(_join(known, guardrail),))
            top.report.add("mapped", path, f"the same name again → first_available over both in {known.name}")
        else:
            text = f"the same name {name!r} with other modes, actions or limits: give it a name of its own"
            top.report.add("unmapped", path, text)
    return found


def _may_stand_in(one: Guardrail, other: Guardrail) -> bool:
    same = replace(one, name=other.name, judged=other.judged) == other
    return same and len(one.judged) == len(other.judged) == 1 and one.judged[0].on_unsafe == other.judged[0].on_unsafe


def _join(one: Guardrail, other: Guardrail) -> Any:
    first, second = one.judged[0], other.judged[0]
    known: Mapping[str, Any] = first.entry["members"] if first.entry["use"] == "vote" else {"first": first.entry}
    members = {**known, f"member{len(known) + 1}": second.entry}
    return replace(first, entry={"use": "vote", "strategy": "first_available", "members": members})


def _write_supervisors(name: str, found: Guardrail, written: Written) -> None:
    """Write the supervisors of a guardrail: the first has its name, one of another action says so."""
    listed: list[tuple[str, str]] = []
    for judged in found.judged:
        own = found.name if not listed else f"{found.name}-{judged.entry['use']}-{judged.on_unsafe}"
        listed.append((written.add_supervisor(own, judged.entry), judged.on_unsafe))
    written.names[found.name] = listed
