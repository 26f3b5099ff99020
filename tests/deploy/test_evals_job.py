from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from evals.cli import build_parser
from evals.exits import Exit
from evals.shards import parse_shard

_JOB = Path(__file__).parents[2] / "deploy" / "evals" / "job.yaml"


def _spec() -> dict[str, Any]:
    spec: dict[str, Any] = yaml.safe_load(_JOB.read_text())["spec"]
    return spec


def _container() -> dict[str, Any]:
    (container,) = _spec()["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


def _command(index: int) -> list[str]:
    """Return the command of a pod with the shell's work done."""
    text: str = _container()["args"][0]
    values = {one["name"]: one.get("value", "secret") for one in _container()["env"]}
    text = text.replace("$((JOB_COMPLETION_INDEX + 1))", str(index + 1))
    return shlex.split(re.sub(r"\$([A-Z_]+)", lambda found: values[found[1]], text))[2:]


def test_every_pod_makes_its_own_shard_and_together_they_make_all() -> None:
    spec = _spec()
    assert spec["completionMode"] == "Indexed"
    shards = [parse_shard(build_parser().parse_args(_command(i)).shard) for i in range(spec["completions"])]
    assert [shard.index for shard in shards] == list(range(1, spec["completions"] + 1))
    assert {shard.count for shard in shards} == {spec["completions"]}


def test_only_failures_that_would_repeat_end_the_job() -> None:
    (rule,) = _spec()["podFailurePolicy"]["rules"]
    assert rule["onExitCodes"]["values"] == [Exit.USAGE, Exit.DRIFT]
    assert rule["onExitCodes"]["containerName"] == _container()["name"]


def test_the_pod_runs_without_root_and_without_writing_to_its_image() -> None:
    assert _spec()["template"]["spec"]["securityContext"]["runAsNonRoot"] is True
    assert _container()["securityContext"]["readOnlyRootFilesystem"] is True
