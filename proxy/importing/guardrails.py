"""One guardrail of a LiteLLM config: what judges, in which stages, and what its verdict leads to (guarding §4.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

from proxy.importing.filters import read_filter, read_presidio
from proxy.importing.notes import Entry
from proxy.wire.segments import as_list, as_object

Stage = Literal["input", "output"]

_MODES: Mapping[str, tuple[tuple[Stage, str], ...]] = {
    "pre_call": (("input", "blocking"),),
    "during_call": (("input", "parallel"),),
    "post_call": (("output", "blocking"),),
    "logging_only": (("input", "shadow"), ("output", "shadow")),
}
_DROPPED = {
    "only_scan_new_messages": "the verdict cache saves the same calls without leaving turns unjudged",
    "run_in_parallel": "all supervisors of a stage run in parallel",
    "scan_raw_request": "all supervisors of a stage judge the original",
    "streaming_sampling_rate": "a stream is judged completely",
    "guardrail_info": "describes the guardrail in LiteLLM's console",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """A supervisor and what its unsafe verdict leads to.

    Args:
        entry: of our config.
        on_unsafe: block, redact or log.
    """

    entry: Mapping[str, Any]
    on_unsafe: str = "block"


@dataclass(frozen=True, slots=True)
class Placed:
    """Stages a guardrail runs in, and for which tag of a key; None is every request."""

    stages: tuple[tuple[Stage, str], ...]
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Guardrail:
    """A guardrail as it will be written.

    Args:
        name: of its supervisors and policies.
        judged: one, or two when some findings block and others redact.
        placed: where it runs.
        forced: it runs without being asked for.
        settings: further members of its stages.
        stream: members of ``stream`` in its output stage.
        message: text of a block, None for the default.
    """

    name: str
    judged: tuple[Judged, ...]
    placed: tuple[Placed, ...]
    forced: bool
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    stream: Mapping[str, Any] = field(default_factory=dict[str, Any])
    message: str | None = None


def read_guardrail(path: str, value: Any, folder: Path, report_to: Entry) -> Guardrail | None:
    """Read one entry of ``guardrails``; None when it could not be mapped, which the report says.

    Args:
        path: where it stands.
        value: the entry.
        folder: folder of the file, for files it names.
        report_to: any entry of the same report.
    """
    report = report_to.report
    outer = Entry(path, as_object(value) or {}, report)
    name = outer.take("guardrail_name")
    params = Entry(f"{path}.litellm_params", as_object(outer.take("litellm_params")) or {}, report)
    outer.drop(
        {"guardrail_info": "describes the guardrail in LiteLLM's console", "guardrail_id": "an id of its database"}
    )
    outer.finish()
    kind = params.take("guardrail")
    reader = _KINDS.get(str(kind))
    if not isinstance(name, str) or not name or reader is None:
        report.add("unmapped", path, f"guardrail {name!r} of kind {kind!r}: none of our supervisors is its counterpart")
        return None
    judged = reader(params, folder)
    placed = _read_mode(params)
    if not judged or not placed:
        report.add("unmapped", path, f"guardrail {name!r} is left out: nothing of it, or no mode, has a counterpart")
        return None
    masks: dict[Stage, bool] = {
        "input": params.take("mask_request_content") is True,
        "output": params.take("mask_response_content") is True,
    }
    scoped = _read_scopes(params)
    everything = scoped == {"scopes": ["conversation", "system"]}  # which rules judge without being told to
    found = Guardrail(
        clean_name(name),
        tuple([one if everything and one.entry["use"] == "rules" else narrow(one, scoped) for one in judged]),
        placed,
        forced=params.take("default_on") is True,
        settings=_read_failure(params),
        stream=_read_stream(params),
        message=_read_message(params),
    )
    if found.name != name:
        report.add("changed", f"{path}.guardrail_name", f"written as {found.name}: names are words")
    found = _mask(found, masks, params)
    params.drop(_DROPPED)
    params.finish()
    report.add("mapped", path, f"guardrail {name!r} → {', '.join([str(one.entry['use']) for one in found.judged])}")
    return found


def narrow(judged: Judged, scoped: Mapping[str, Any]) -> Judged:
    """Return a supervisor with the options that narrow what it judges."""
    return replace(judged, entry={**judged.entry, **scoped})


def clean_name(name: str) -> str:
    """Return a name as it can stand in headers and paths."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "guardrail"


def _mask(found: Guardrail, masks: Mapping[Stage, bool], params: Entry) -> Guardrail:
    """Turn the mask options into `redact`; they hold for all stages of ours, so both must agree."""
    used: set[Stage] = {stage for placed in found.placed for stage, _ in placed.stages}
    wanted = {masks[stage] for stage in used}
    if wanted == {True}:
        params.report.add("mapped", params.path, "mask_*_content → on_unsafe: redact")
        return replace(found, judged=tuple([replace(one, on_unsafe="redact") for one in found.judged]))
    if True in wanted:
        params.report.add("unmapped", params.path, "masks in one stage and blocks in the other: write two guardrails")
    return found


def _read_mode(params: Entry) -> tuple[Placed, ...]:
    value = params.take("mode")
    path = f"{params.path}.mode"
    tagged = as_object(value)
    if tagged is None:
        stages = _stages(path, value, params)
        return (Placed(stages),) if stages else ()
    placed = [
        Placed(stages, str(tag))
        for tag, modes in (as_object(tagged.get("tags")) or {}).items()
        if (stages := _stages(f"{path}.tags.{tag}", modes, params))
    ]
    if tagged.get("default") is not None:
        stages = _stages(f"{path}.default", tagged["default"], params)
        if stages:
            placed.append(Placed(stages))
            text = "the default holds for requests with those tags too: policies are joined, never replaced"
            params.report.add("changed", f"{path}.default", text)
    params.report.add("changed", f"{path}.tags", "tags are those of the caller's key, not of the request")
    return tuple(placed)


def _stages(path: str, value: Any, params: Entry) -> tuple[tuple[Stage, str], ...]:
    found: list[tuple[Stage, str]] = []
    for mode in as_list(value) or ([value] if value is not None else []):
        if str(mode) not in _MODES:
            params.report.add("unmapped", path, f"mode {mode!r} has no counterpart")
            continue
        found += [stage for stage in _MODES[str(mode)] if stage not in found]
        params.report.add("mapped", path, f"{mode} → " + ", ".join([" ".join(stage) for stage in _MODES[str(mode)]]))
    return tuple(found)


def _read_scopes(params: Entry) -> dict[str, Any]:
    """Read what narrows the judged text; LiteLLM judges system text by default, so we name that scope."""
    narrowed: dict[str, Any] = {"scopes": ["conversation", "system"]}
    if params.take_as("skip_system_message_in_guardrail", "scopes: [conversation]"):
        narrowed["scopes"] = ["conversation"]
    if params.take_as("scan_only_tool_results", "kinds: [tool_result]"):
        narrowed = {"scopes": ["conversation"], "kinds": ["tool_result"]}
    elif params.take_as("skip_tool_message_in_guardrail", "roles without tool"):
        narrowed["roles"] = ["user", "assistant", "system", "developer"]
    if params.take("experimental_use_latest_role_message_only"):
        narrowed["turns"] = "last_user"
        text = "turns: last_user; earlier turns and replies of tools are then not judged, which is a gap"
        params.report.add("changed", f"{params.path}.experimental_use_latest_role_message_only", text)
    return narrowed


def _read_failure(params: Entry) -> dict[str, Any]:
    opened = params.take("unreachable_fallback") == "fail_open" or params.take("fail_on_error") is False
    if not opened:
        return {}
    params.report.add("mapped", params.path, "fails open → on_unknown: {default: block, error: log, timeout: log}")
    return {"on_unknown": {"default": "block", "error": "log", "timeout": "log"}}


def _read_stream(params: Entry) -> dict[str, Any]:
    if params.take("stream_scope") not in (None, "both"):
        text = "judging only some replies by how they are sent would be a gap"
        params.report.add("unmapped", f"{params.path}.stream_scope", text)
    hold = params.take_as("streaming_buffer_until_moderated", "stream.mode: hold")
    end = params.take_as("streaming_end_of_stream_only", "stream.mode: hold")
    window = params.take_as("streaming_buffer_release_on_scan", "stream.mode: window")
    return {"mode": "hold"} if hold or end else {"mode": "window"} if window else {}


def _read_message(params: Entry) -> str | None:
    message = params.take("violation_message_template")
    if not isinstance(message, str):
        return None
    if "{" in message:
        text = "a message has no placeholders"
        params.report.add("unmapped", f"{params.path}.violation_message_template", text)
        return None
    params.report.add("mapped", f"{params.path}.violation_message_template", "on_block.message")
    return message


def to_secret(value: Any, params: Entry, name: str, ours: str) -> Any:
    """Return a credential as a reference; one in plain text is not copied, and the report says where it goes."""
    secret = to_reference(value)
    if secret is not None:
        params.report.add("mapped", f"{params.path}.{name}", "{env: …}")
    elif value is not None:
        text = f"a secret in plain text is not copied: put it into the environment and write {ours}: {{env: NAME}}"
        params.report.add("unmapped", f"{params.path}.{name}", text)
    return secret


def to_reference(value: Any) -> Any:
    """Return the reference that a credential of LiteLLM is, None for one in plain text and for none."""
    plain = not isinstance(value, str) or not value.startswith("os.environ/")
    return None if plain else {"env": value.removeprefix("os.environ/")}


def _common(params: Entry, entry: dict[str, Any], *, key: str | None = None) -> dict[str, Any]:
    """Add what several kinds have: credentials, address, limits."""
    secret = to_secret(params.take("api_key"), params, "api_key", "into its entry below supervisors, api_key")
    if secret is None and key is not None:
        params.report.add("changed", params.path, f"without api_key the key is read from {key}, as LiteLLM does")
        secret = {"env": key}
    if secret is not None:
        entry["api_key"] = secret
    for theirs, ours in (("api_base", "url"), ("timeout", "timeout_s"), ("max_input_chars", "max_chars"),
                         ("max_concurrent_decision_calls", "parallel")):  # fmt: skip
        value = params.take_as(theirs, ours)
        if value is not None:
            entry[ours] = value
    retries = params.take("num_retries")
    if retries not in (None, 1):
        params.report.add("unmapped", f"{params.path}.num_retries", "a supervisor's call is tried again once")
    return entry


def _moderation(params: Entry, folder: Path) -> Sequence[Judged]:
    entry = _common(params, {"use": "moderation"}, key="OPENAI_API_KEY")
    model = params.take_as("model", "model")
    return (Judged(entry if model is None else {**entry, "model": model}),)


def _azure(params: Entry, folder: Path) -> Sequence[Judged]:
    entry = _common(params, {"use": "azure_text"})
    limits = as_object(params.take_as("severity_threshold_by_category", "severity_thresholds"))
    limit = params.take_as("severity_threshold", "severity_threshold")
    entry |= {"severity_thresholds": limits} if limits else {}
    entry |= {"severity_threshold": limit} if limit is not None else {}
    version = params.take_as("api_version", "api_version")
    return (Judged(entry if version is None else {**entry, "api_version": version}),)


def _secrets(params: Entry, folder: Path) -> Sequence[Judged]:
    if params.take("detect_secrets_config") is not None:
        params.report.add("unmapped", f"{params.path}.detect_secrets_config", "our patterns have no plugins")
    return (Judged({"use": "rules", "presets": ["secrets"]}, "redact"),)


def _lakera(params: Entry, folder: Path) -> Sequence[Judged]:
    """Map Lakera Guard v2; its own reading of personal data only, which LiteLLM masks, is a finding like any other."""
    entry = _common(params, {"use": "lakera"}, key="LAKERA_API_KEY")
    if isinstance(entry.get("url"), str) and not entry["url"].rstrip("/").endswith("/v2"):
        entry["url"] = f"{entry['url'].rstrip('/')}/v2"
    project = params.take_as("project_id", "project_id")
    entry |= {"project_id": project} if project is not None else {}
    params.drop(dict.fromkeys(("breakdown", "payload"), "is always asked for"))
    params.drop({"dev_info": "is never asked for"})
    monitor = params.take_as("on_flagged", "on_unsafe") == "monitor"
    if not monitor:
        text = "a text flagged for personal data alone is blocked; LiteLLM masks it. Write on_unsafe: redact for that"
        params.report.add("changed", params.path, text)
    return (Judged(entry, "log" if monitor else "block"),)


def _judge(params: Entry, folder: Path) -> Sequence[Judged]:
    """Map a judge of quality, 0 to 100 where lower is worse, to a judge of risk, 0 to 1 where higher is worse."""
    model = params.take_as("judge_model", "model")
    listed = [as_object(one) or {} for one in as_list(params.take("criteria")) or []]
    if not isinstance(model, str) or not listed:
        params.report.add("unmapped", params.path, "a judge needs judge_model and criteria")
        return ()
    weight = sum([float(one.get("weight") or 0) for one in listed]) or float(len(listed))
    parts = [
        f"{one.get('name')} ({float(one.get('weight') or 1) / weight:.0%}): "
        f"{str(one.get('description') or one.get('name')).rstrip('.')}"
        for one in listed
    ]
    criterion = (
        "Judge only how well the text meets these criteria, by their weight, and let the score be the share that it "
        f"misses, from 0 (meets all) to 1 (meets none): {'; '.join(parts)}."
    )
    quality = float(params.take("overall_threshold") or 80.0)
    on_failure = str(params.take_as("on_failure", "on_unsafe") or "block")
    text = (
        f"quality below {quality:g} of 100 → risk from {1 - quality / 100:.2f}; the criteria are a sentence of our "
        "prompt, which asks about harm as well: measure it before you rely on it"
    )
    params.report.add("changed", f"{params.path}.overall_threshold", text)
    entry = {"use": "judge", "model": model, "criterion": criterion, "threshold": round(1 - quality / 100, 4)}
    return (Judged(_common(params, cast("dict[str, Any]", entry)), "log" if on_failure == "log" else "block"),)


def _filter(params: Entry, folder: Path) -> Sequence[Judged]:
    return tuple([Judged(entry, action) for action, entry in read_filter(params, folder)])


def _presidio(params: Entry, folder: Path) -> Sequence[Judged]:
    return tuple([Judged(entry, action) for action, entry in read_presidio(params)])


_KINDS: Mapping[str, Callable[[Entry, Path], Sequence[Judged]]] = {
    "litellm_content_filter": _filter,
    "presidio": _presidio,
    "hide-secrets": _secrets,
    "openai_moderation": _moderation,
    "azure/text_moderations": _azure,
    "lakera_v2": _lakera,
    "llm_as_a_judge": _judge,
}
