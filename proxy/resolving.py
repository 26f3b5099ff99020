"""Models that supervisors ask by name: whom a name leads to, and names that lead nowhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from proxy.config import Config
from supervisors.cascade import Cascade
from supervisors.nearest import did_you_mean
from supervisors.nesting import children, walk
from supervisors.self_judge import SelfJudge
from supervisors.transport import check_base_url
from supervisors.types import Endpoint, Supervisor


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A name that leads to no model.

    Args:
        path: setting that holds it.
        message: what is wrong and what would be right.
    """

    path: str
    message: str


def walk_paths(path: str, supervisor: Supervisor) -> Iterator[tuple[str, Supervisor]]:
    """Yield the supervisor and everything under it, each with the path of its entry in the file."""
    yield path, supervisor
    for index, (name, child) in enumerate(children(supervisor).items()):
        part = f"steps.{index}.supervisor" if isinstance(supervisor, Cascade) else f"members.{name}"
        yield from walk_paths(f"{path}.{part}", child)


def find_unresolved(config: Config) -> Iterator[Unresolved]:
    """Yield every supervisor that would ask a model nobody serves: each of its verdicts would be unknown."""
    served = config.served_models()
    known = ", ".join(sorted(served)) or "none"
    for name, supervisor in config.supervisors.items():
        for path, part in walk_paths(f"supervisors.{name}", supervisor):
            endpoint: object = getattr(part, "endpoint", None)
            if isinstance(endpoint, Endpoint) and endpoint.url is not None:
                yield from _check_url(f"{path}.url", endpoint.url)
            if not isinstance(endpoint, Endpoint) or endpoint.url is not None or endpoint.vendor != "openai":
                continue
            if endpoint.model not in served and "*" not in served:
                hint = did_you_mean(endpoint.model, served)
                message = f"unknown model {endpoint.model!r}; known: {known}{hint}"
                if getattr(part, "model", None) is None:
                    message = f"give 'url', or one of the served models; without either it asks an {message}"
                yield Unresolved(f"{path}.model", message)
    yield from _find_nameless(config)


def _check_url(path: str, url: str) -> Iterator[Unresolved]:
    try:
        check_base_url(url, allow_link_local=True)  # as when it is called; the client checks what it resolves to
    except ValueError as error:
        yield Unresolved(path, str(error))


def _find_nameless(config: Config) -> Iterator[Unresolved]:
    """A moderation has no model that answers, so nobody who judges itself can be asked there."""
    for alias, name in config.moderation_aliases().items():
        policy = config.policies.get(name)
        if policy is None or alias in config.served_models() or "*" in config.served_models():
            continue
        for forced in policy.input.forced:
            for path, part in walk_paths(f"supervisors.{forced}", config.supervisors[forced]):
                if isinstance(part, SelfJudge) and config.moderations.aliases is not None:
                    message = f"the policy {name} asks {path}, and a moderation has no answering model; take another"
                    yield Unresolved(f"moderations.aliases.{alias}", message)


def owner_of(config: Config) -> Callable[[str], str | None]:
    """Return what says which supervisors a URL that is called belongs to: their names, joined where they share it."""
    owners: dict[str, list[str]] = {}
    regional: list[str] = []
    for name, supervisor in config.supervisors.items():
        for full, part in walk(name, supervisor):
            url: object = getattr(part, "url", None)
            if isinstance(url, str):
                owners.setdefault(url.rstrip("/"), []).append(full)
            elif hasattr(part, "region") or hasattr(part, "location"):
                regional.append(full)  # its address follows from the region

    def find(url: str) -> str | None:
        plain = url.split("?", maxsplit=1)[0]
        fitting = [base for base in owners if plain == base or plain.startswith(f"{base}/")]
        names = owners[max(fitting, key=len)] if fitting else regional
        return ",".join(names) or None

    return find
