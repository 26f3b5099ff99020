"""Models that no policy reaches, or on one side only: what passes there is unjudged (G-18)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from proxy.config import Config
from proxy.misled import Doubt
from proxy.plan import Request, matches
from proxy.policy import Policy
from proxy.wire.chat import CHAT
from supervisors.types import Stage


def find_unreached(config: Config) -> Iterator[Doubt]:
    """Yield every model that no policy reaches, for some caller at least, then those judged on one side only."""
    callers = [(name, key.tags) for name, key in config.keys.items()] or [("", ())]
    for model in config.served_models():
        requests = [Request(model, key, CHAT.route, tags) for key, tags in callers]
        bare = [one for one in requests if not any(matches(policy.attach, one) for policy in config.policies.values())]
        if bare:
            names = ", ".join(sorted([one.key for one in bare if one.key]))
            who = f" for the keys {names}" if names else ""
            message = (
                f"coverage gap: no policy is attached to it on {CHAT.route}{who}: it passes unjudged; "
                "name it in the attach.models of a policy, or leave attach out of one to cover every model"
            )
            yield Doubt(f"models.{model}", message)
    yield from _find_sides(config, callers)


def _find_sides(config: Config, callers: Sequence[tuple[str, tuple[str, ...]]]) -> Iterator[Doubt]:
    """Name the models of which policies judge one side only, for some caller: the other passes unjudged (G-18)."""
    bare: dict[Stage, list[str]] = {}
    for model in config.served_models():
        for key, tags in callers:
            asked = Request(model, key, CHAT.route, tags)
            held = [policy for policy in config.policies.values() if matches(policy.attach, asked)]
            judged = {side for policy in held for side in _sides_of(policy)}
            for side in sorted({"input", "output"} - judged if judged else ()):
                models = bare.setdefault("input" if side == "input" else "output", [])
                models += [model] if model not in models else []
    for side, models in bare.items():
        of = "all models" if len(models) == len(config.served_models()) else ", ".join(sorted(models))
        who = " for some keys" if config.keys else ""
        message = (
            f"coverage gap: no policy judges the {side} of {of} on {CHAT.route}{who}: "
            f"it passes unjudged; name a supervisor in the {side}.forced of a policy that holds there"
        )
        yield Doubt("policies", message)


def _sides_of(policy: Policy) -> Iterator[str]:
    for side, settings in (("input", policy.input), ("output", policy.output)):
        if settings.forced or (settings.optional and settings.default_on):
            yield side
