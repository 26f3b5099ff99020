"""LiteLLM's policies, attachments and pipelines as policies and cascades of ours."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from proxy.importing.guardrails import Guardrail, Placed, clean_name
from proxy.importing.notes import Entry, Report
from proxy.wire.segments import as_list, as_object

_OUTCOMES: Mapping[str, str] = {"next": "next", "allow": "safe", "block": "unsafe", "modify_response": "unsafe"}


@dataclass(slots=True)
class Written:
    """The supervisors and policies of our config.

    Args:
        report: of the import.
        supervisors: entries by name.
        policies: by name.
        names: guardrail name → its supervisors with what their unsafe verdicts lead to.
    """

    report: Report
    supervisors: dict[str, Any] = field(default_factory=dict[str, Any])
    policies: dict[str, Any] = field(default_factory=dict[str, Any])
    names: dict[str, list[tuple[str, str]]] = field(default_factory=dict[str, "list[tuple[str, str]]"])

    def add_supervisor(self, name: str, entry: Mapping[str, Any]) -> str:
        """Write a supervisor under a name that is free, and return the name."""
        own = self.find_free(name, self.supervisors)
        self.supervisors[own] = dict(entry)
        return own

    def add_policy(self, name: str, policy: Mapping[str, Any]) -> str:
        """Write a policy under a name that is free, and return the name: nothing that was read may be overwritten."""
        own = self.find_free(name, self.policies)
        self.policies[own] = dict(policy)
        return own

    def find_free(self, name: str, taken: Container[str]) -> str:
        """Return a name, or the name with the first number that is free, which the report says."""
        if name not in taken:
            return name
        free = next(numbered for number in count(2) if (numbered := f"{name}-{number}") not in taken)
        self.report.add("changed", name, f"written as {free}: something else is called {name}")
        return free

    def place(self, policy: str, found: Guardrail, attach: Mapping[str, Any], *, forced: bool) -> None:
        """Write the policies that a guardrail runs by, one an action and tag."""
        listed = self.names[found.name]
        for action in dict.fromkeys([action for _, action in listed]):
            supervisors = [supervisor for supervisor, its in listed if its == action]
            for placed in found.placed:
                name = policy if action == listed[0][1] else f"{policy}-{action}"
                name += f"-{clean_name(placed.tag)}" if placed.tag is not None else ""
                target = {**attach, "tags": [placed.tag]} if placed.tag is not None else dict(attach)
                self._write(name, supervisors, (found, placed, action), target, forced=forced)

    def _write(
        self,
        name: str,
        supervisors: Sequence[str],
        what: tuple[Guardrail, Placed, str],
        attach: Mapping[str, Any],
        *,
        forced: bool,
    ) -> None:
        found, placed, action = what
        policy: dict[str, Any] = {"attach": dict(attach)} if attach else {}
        for stage, mode in placed.stages:
            if action == "redact" and mode == "parallel":
                text = "masking is impossible beside the model's call: written as mode: blocking"
                self.report.add("changed", f"guardrails.{found.name}.mode", text)
                mode = "blocking"  # noqa: PLW2901 - what is written, not what was read
            settings: dict[str, Any] = {"forced" if forced else "optional": list(supervisors)}
            settings |= {} if mode == "blocking" else {"mode": mode}
            settings |= (
                {"on_unsafe": "log", "on_unknown": "log"}
                if mode == "shadow"
                else {"on_unsafe": action, **found.settings}
            )
            settings |= {"stream": dict(found.stream)} if stage == "output" and found.stream else {}
            policy[stage] = settings
        if found.message is not None:
            policy["on_block"] = {"message": found.message}
        self.add_policy(name, policy)


def write_policies(tree: Entry, guardrails: Mapping[str, Guardrail], written: Written) -> None:
    """Write the attached policies of a file, flattened: what a policy inherits and removes is resolved here."""
    policies = as_object(tree.take("policies")) or {}
    attachments = as_list(tree.take("policy_attachments")) or []
    attached = {str((as_object(one) or {}).get("policy")) for one in attachments}
    for name in policies:
        if name not in attached:
            written.report.add("changed", f"policies.{name}", "not attached to anything: not written")
    for index, value in enumerate(attachments):
        entry = Entry(f"policy_attachments[{index}]", as_object(value) or {}, written.report)
        name = str(entry.take("policy"))
        if name not in policies:
            written.report.add("unmapped", entry.path, f"there is no policy {name!r}")
            continue
        attach = _read_attach(entry, as_object(policies[name]) or {}, f"policies.{name}")
        if attach is None:
            continue
        _write_policy(clean_name(name), name, policies, attach, (guardrails, written))
        entry.finish()


def _write_policy(
    label: str,
    name: str,
    policies: Mapping[str, Any],
    attach: Mapping[str, Any],
    to: tuple[Mapping[str, Guardrail], Written],
) -> None:
    guardrails, written = to
    path = f"policies.{name}"
    entry = Entry(path, as_object(policies[name]) or {}, written.report)
    entry.drop({"description": "a comment"})
    for read in ("inherit", "guardrails", "condition"):
        entry.take(read)
    pipeline = as_object(entry.take("pipeline"))
    entry.finish()
    if pipeline is not None:
        _write_pipeline(label, Entry(f"{path}.pipeline", pipeline, written.report), attach, to)
        return
    for guardrail in _resolve(name, policies, written.report, ()):
        found = guardrails.get(guardrail)
        if found is None:
            written.report.add("unmapped", path, f"guardrail {guardrail!r} has no counterpart")
        else:
            written.place(f"{label}-{found.name}", found, attach, forced=True)
            written.report.add("mapped", path, f"{guardrail} forced by policy {label}-{found.name}")


def _resolve(name: str, policies: Mapping[str, Any], report: Report, seen: tuple[str, ...]) -> list[str]:
    """Return the guardrails of a policy after its inheritance."""
    policy = as_object(policies.get(name))
    if policy is None or name in seen:
        report.add("unmapped", f"policies.{(*seen, name)[0]}.inherit", f"{name!r} is missing or inherits from itself")
        return []
    parent = policy.get("inherit")
    found = _resolve(str(parent), policies, report, (*seen, name)) if parent is not None else []
    changes = as_object(policy.get("guardrails")) or {}
    found += [str(one) for one in as_list(changes.get("add")) or [] if str(one) not in found]
    removed = {str(one) for one in as_list(changes.get("remove")) or []}
    return [one for one in found if one not in removed]


def _read_attach(entry: Entry, policy: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    """Return `attach`; None when it says something ours cannot say, since attaching to more would change behaviour."""
    report = entry.report
    teams = as_list(entry.take("teams")) or []
    if [team for team in teams if team != "*"]:
        report.add("unmapped", f"{entry.path}.teams", "there are no teams: give their keys a tag and attach to the tag")
        return None
    if entry.take("default"):
        report.add(
            "unmapped", f"{entry.path}.default", "a policy that holds only when no other does would loosen others"
        )
        return None
    entry.drop({"priority": "the order of policies never matters", "scope": "attach to everything"})
    attach = {
        key: [str(one) for one in listed] for key in ("models", "keys", "tags") if (listed := as_list(entry.take(key)))
    }
    wanted = (as_object(policy.get("condition")) or {}).get("model")
    if wanted is None:
        return attach
    models = [_to_wildcard(str(one)) for one in (as_list(wanted) or [wanted])]
    if None in models or attach.get("models", ["*"]) != ["*"]:
        report.add("unmapped", f"{path}.condition.model", f"{wanted!r} beside models of the attachment, or no wildcard")
        return None
    report.add("mapped", f"{path}.condition.model", f"attach.models: {models}")
    return {**attach, "models": models}


def _to_wildcard(pattern: str) -> str | None:
    """Return a regular expression as a name with ``*``; None if it says more than that."""
    plain = pattern.removeprefix("^").removesuffix("$").replace(r"\.", "\0").replace(".*", "*").replace(r"\-", "-")
    plain = plain.replace("\0", ".")
    return plain if re.fullmatch(r"[A-Za-z0-9_./:*-]+", plain) else None


def _write_pipeline(
    label: str, pipeline: Entry, attach: Mapping[str, Any], to: tuple[Mapping[str, Guardrail], Written]
) -> None:
    """Write a cascade; a step that errs leads where a step that fails leads, unless the file says otherwise."""
    guardrails, written = to
    mode, steps = pipeline.take("mode"), as_list(pipeline.take("steps")) or []
    pipeline.finish()
    entries: list[dict[str, Any]] = []
    message: Sequence[str] = ()
    for index, value in enumerate(steps):
        step = Entry(f"{pipeline.path}.steps[{index}]", as_object(value) or {}, written.report)
        entry, said = _read_step(step, guardrails, written)
        if entry is None:
            return
        entries.append(entry)
        message = said or message
    stage = {"pre_call": "input", "post_call": "output"}.get(str(mode))
    if stage is None:
        written.report.add("unmapped", f"{pipeline.path}.mode", f"mode {mode!r} has no counterpart")
        return
    name = written.add_supervisor(f"{label}-pipeline", {"use": "cascade", "steps": entries})
    policy: dict[str, Any] = {"attach": dict(attach)} if attach else {}
    policy[stage] = {"forced": [name]}
    if message:
        policy["on_block"] = {stage: "refusal", "message": message[0]} if message[0] else {stage: "refusal"}
    written.add_policy(label, policy)
    written.report.add("mapped", pipeline.path, f"cascade {name}")


def _read_step(
    step: Entry, guardrails: Mapping[str, Guardrail], written: Written
) -> tuple[dict[str, Any] | None, Sequence[str]]:
    found = guardrails.get(str(step.take("guardrail")))
    if found is None or len(found.judged) != 1 or found.judged[0].on_unsafe == "redact":
        written.report.add("unmapped", step.path, "the guardrail has no counterpart, or masks: a cascade only judges")
        return None, ()
    if step.take("pass_data"):
        written.report.add("unmapped", f"{step.path}.pass_data", "all steps judge the original")
    passed, failed = str(step.take("on_pass") or "allow"), str(step.take("on_fail") or "block")
    erred = str(step.take("on_error") or failed)
    words = (passed, failed, erred)
    if any(word not in _OUTCOMES for word in words):
        written.report.add("unmapped", step.path, f"actions are {', '.join(_OUTCOMES)}, not {words}")
        return None, ()
    said = step.take("modify_response_message")
    step.finish()
    entry = {
        "supervisor": written.names[found.name][0][0],
        "on_safe": _OUTCOMES[passed],
        "on_unsafe": _OUTCOMES[failed],
        "on_unknown": "unknown" if erred in ("block", "modify_response") else _OUTCOMES[erred],
    }
    if erred == "allow":
        written.report.add("changed", f"{step.path}.on_error", "fails open: a step that errs is taken for safe")
    return entry, ([str(said or "")] if "modify_response" in words else ())
