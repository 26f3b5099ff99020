"""The rules of a gate as a file (H-165)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from evals.comparison.measures import MEASURES
from evals.written import read_mapping
from supervisors.errors import ConfigError
from supervisors.plugins import flatten_errors

_Share = Annotated[float, Field(ge=0.0, le=1.0)]
_Level = Annotated[float, Field(gt=0.5, lt=1.0)]
_NAMES = {measure.name: measure for measure in MEASURES}


class _Of(BaseModel):
    """What a rule is about."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    dataset: str | None = None
    category: str | None = None
    level: _Level = 0.95

    @model_validator(mode="after")
    def _check_metric(self) -> Self:
        if self.metric not in _NAMES:
            msg = f"no metric {self.metric!r}; known are {', '.join(_NAMES)}"
            raise ValueError(msg)
        return self

    @property
    def about(self) -> str:
        """Return the metric with its data set and category."""
        parts = [part for part in (self.dataset, self.category) if part]
        return f"{self.metric} ({', '.join(parts)})" if parts else self.metric


class AbsoluteRule(_Of):
    """A rate that must keep a limit.

    Args:
        metric: name of a metric.
        dataset: data set; None takes all items together.
        category: pattern of category names.
        max: largest rate allowed, above 0: no number of trials shows a rate of 0.
        min: smallest rate allowed, below 1 for the same reason.
        level: confidence of the exact interval.
    """

    max: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    min: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None

    @model_validator(mode="after")
    def _check_limit(self) -> Self:
        if (self.max is None) == (self.min is None):
            msg = "give either max or min"
            raise ValueError(msg)
        return self


class RelativeRule(_Of):
    """A rate that must not have become worse than in the base run by more than a margin.

    Args:
        margin: largest worsening allowed, as a share of items.
    """

    margin: Annotated[float, Field(gt=0.0, lt=1.0)]

    @model_validator(mode="after")
    def _check_direction(self) -> Self:
        if _NAMES[self.metric].higher_is == "neutral":
            msg = f"{self.metric} has no harmful direction, so it cannot become worse"
            raise ValueError(msg)
        return self


class LimitRules(BaseModel):
    """What a run may have of what should not be.

    Args:
        max_unknown: share of trials whose verdict is unknown.
        max_error: share of trials where model, proxy, supervisor or judge failed.
        max_alarms: alarms of the audit.
        max_judge_hijack: judges that obeyed an answer telling them what to say.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_unknown: _Share = 0.02
    max_error: _Share = 0.01
    max_alarms: Annotated[int, Field(ge=0)] = 0
    max_judge_hijack: Annotated[int, Field(ge=0)] = 0


class Rules(BaseModel):
    """All rules of a gate."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    absolute: tuple[AbsoluteRule, ...] = ()
    relative: tuple[RelativeRule, ...] = ()
    limits: LimitRules = LimitRules()


_PARTS: Mapping[object, type[BaseModel]] = {"absolute": AbsoluteRule, "relative": RelativeRule, "limits": LimitRules}


def _problems(error: ValidationError) -> Iterator[str]:
    """Yield one line a problem; a name that nobody knows with those that are known in its place."""
    plain = flatten_errors(error)
    for (where, message), problem in zip(plain, error.errors(include_url=False), strict=True):
        place = problem["loc"]
        if problem["type"] == "extra_forbidden":
            model = _PARTS[place[0]] if len(place) > 1 else Rules
            yield f"{where}: no such rule member; known here are {', '.join(model.model_fields)}"
        else:
            yield f"{where}: {message}"


def load_rules(path: Path) -> Rules:
    """Read a rules file.

    Raises:
        ConfigError: it cannot be read, holds something else, or names no rule; one line a problem.
    """
    tree = read_mapping(path, "rules", "absolute, relative and limits, such as in docs/evals.md")
    try:
        rules = Rules.model_validate(tree)
    except ValidationError as error:
        problems = [f"rules {path}: {line}" for line in _problems(error)]
        raise ConfigError("\n".join(problems)) from error
    if not rules.absolute and not rules.relative:
        msg = f"rules {path}: names no absolute and no relative rule; a gate without rules would pass everything"
        raise ConfigError(msg)
    return rules
