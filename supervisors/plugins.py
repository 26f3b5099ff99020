"""Find supervisors by entry point and build one from its config entry. Ours register the same way."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from inspect import iscoroutinefunction, isfunction, ismethod, unwrap
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, PlainSerializer, PlainValidator, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError, to_jsonable_python

from supervisors.errors import ConfigError, GuardrailError, MissingError
from supervisors.nearest import did_you_mean
from supervisors.types import Supervisor

GROUP = "guardrail_proxy.supervisors"


def find_plugins() -> dict[str, EntryPoint]:
    """Return the installed supervisor kinds by the word of `use:`.

    Raises:
        ConfigError: two distributions offer the same word.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        other = found.get(point.name)
        if other is not None and other.value != point.value:
            msg = f"two distributions offer the supervisor kind {point.name!r}: {other.value} and {point.value}"
            raise ConfigError(msg, "supervisors")
        found[point.name] = point
    return found


def load_kind(point: EntryPoint) -> Any:
    """Return the class of a supervisor kind.

    Raises:
        ConfigError: its module cannot be imported, does not hold the class, or that is no supervisor.
    """
    try:
        kind: Any = point.load()
    except GuardrailError:
        raise
    except Exception as error:
        msg = f"{point.name}: cannot be loaded: {type(error).__name__}: {error} (entry point {point.value})"
        raise ConfigError(msg) from error
    if not callable(getattr(kind, "model_validate", None)):
        msg = f"{point.name}: cannot be loaded: {point.value} reads no options: derive it from pydantic.BaseModel"
        raise ConfigError(msg)
    if _is_model(kind) and not is_asked(kind):
        raise ConfigError(_judges_nothing(point))
    return kind


def _is_model(kind: object) -> bool:
    """Say whether a class is made of its options; any other may build what it likes of them."""
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def is_asked(kind: object) -> bool:
    """Say whether the `assess` of a class or object gives something to wait for.

    A plain function does if it says so (``-> Awaitable[Verdict]``), or if what it wraps is a coroutine function.
    """
    assess: Any = getattr(kind, "assess", None)
    if not callable(assess):
        return False
    plain = unwrap(assess)
    if not (isfunction(plain) or ismethod(plain)):
        return True  # an object that is called: nothing is known of it
    said = str(getattr(plain, "__annotations__", {}).get("return", ""))
    return any(map(iscoroutinefunction, (assess, plain))) or any(word in said for word in ("Awaitable", "Coroutine"))


def _judges_nothing(point: EntryPoint) -> str:
    wanted = "async def assess(self, exchange, context) -> Verdict"
    return f"{point.name}: cannot be loaded: {point.value} judges nothing: it needs {wanted}"


def build_supervisor(entry: object) -> Supervisor:
    """Turn one config entry into the supervisor itself: the entry is the object.

    Args:
        entry: mapping with the word ``use`` and the options of that kind, or an already built supervisor.

    Raises:
        ValueError: shaped for pydantic, so that the path of the entry is in the message.
    """
    if not isinstance(entry, dict):
        if hasattr(entry, "assess"):
            return cast("Supervisor", entry)  # structural: a plugin author owes us the method, not a base class
        msg = f"a supervisor is a mapping with the word 'use', not {type(entry).__name__}"
        raise ValueError(msg)
    options = cast("dict[str, object]", entry)  # keys of a YAML mapping; pydantic checks them below
    use = options.get("use")
    plugins = find_plugins()
    if not isinstance(use, str) or use not in plugins:
        near = did_you_mean(use, plugins) if isinstance(use, str) else ""
        msg = f"unknown supervisor kind {use!r}{near or ';'} installed are: {', '.join(sorted(plugins))}"
        raise ValueError(msg)
    try:
        kind = load_kind(plugins[use])
    except ConfigError as error:
        raise ValueError(str(error)) from error
    validate: Callable[[object], Supervisor] = kind.model_validate
    try:
        built = validate(options)
    except ValidationError as error:
        raise nest_errors(error) from error
    if not is_asked(built):
        raise ValueError(_judges_nothing(plugins[use]))  # a class of another kind, which builds what it likes
    return built


def nest_errors(error: ValidationError) -> PydanticCustomError:
    """Wrap the errors of one entry so that `flatten_errors` can give each its full path."""
    return PydanticCustomError(
        "supervisor_entry", "{count} problem(s)", {"count": error.error_count(), "nested": error}
    )


def flatten_errors(error: ValidationError) -> list[tuple[str, str]]:
    """Return (dotted path, message) of every problem, through nested supervisor entries."""
    found: list[tuple[str, str]] = []
    for problem in error.errors(include_url=False):
        path = ".".join(str(part) for part in problem["loc"])
        nested = problem.get("ctx", {}).get("nested")
        if isinstance(nested, ValidationError):
            found += [(f"{path}.{inner}" if inner else path, message) for inner, message in flatten_errors(nested)]
        else:
            found.append((path, _PLAIN.get(problem["type"]) or _say(problem)))
    return found


def is_only_missing(error: ValidationError) -> bool:
    """Say whether everything that is wrong is that something is not installed or not there."""
    for problem in error.errors(include_url=False):
        context = problem.get("ctx", {})
        nested = context.get("nested")
        if not (is_only_missing(nested) if isinstance(nested, ValidationError) else _is_missing(context.get("error"))):
            return False
    return True


def _is_missing(error: object) -> bool:
    return isinstance(error, MissingError)


def _say(problem: ErrorDetails) -> str:
    """Say what is wrong in words of a config file, with the word that was probably meant."""
    said, given, context = problem["msg"].removeprefix("Value error, "), problem["input"], problem.get("ctx", {})
    if problem["type"] in ("literal_error", "enum") and isinstance(given, str):
        return said + did_you_mean(given, re.findall(r"'([^']*)'", context["expected"]))
    if problem["type"] == "too_short" and context["min_length"] == 1:
        return "must not be empty: it needs at least 1 entry"
    return said


REQUIRED: Final = "this setting is required"
UNKNOWN: Final = "unknown setting"
_PLAIN: Final = {
    "extra_forbidden": f"{UNKNOWN}; `guardrail-proxy schema` lists the known ones",
    "missing": REQUIRED,
    "tuple_type": "must be a list, as in [name]",
    "frozen_set_type": "must be a list, as in [name]",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
}
"""Words of a config file for pydantic's words of Python."""


def _dump(supervisor: Any) -> Any:
    """Return the entry of a supervisor; one built in code instead of config shows its type and fields.

    Sets are sorted: their own order differs from process to process, and the config version with it.
    """
    dump = getattr(supervisor, "model_dump", None)
    return to_jsonable_python(_sort_sets(dump())) if dump is not None else {"use": repr(supervisor)}


def _sort_sets(value: Any) -> Any:
    match value:
        case set() | frozenset():
            return sorted([_sort_sets(item) for item in cast("set[Any]", value)], key=str)
        case {**mapping}:
            return {key: _sort_sets(item) for key, item in mapping.items()}
        case [*items]:
            return [_sort_sets(item) for item in items]
        case _:
            return value


SupervisorEntry = Annotated[
    Supervisor,
    PlainValidator(build_supervisor),
    PlainSerializer(_dump),
    WithJsonSchema({"type": "object", "required": ["use"], "properties": {"use": {"type": "string"}}}),
]
"""Field type of everything that holds a supervisor: `supervisors:` of the config, members, steps."""
