"""The files an operator copies: example config, compose file, image, chart."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.checks import check_config
from proxy.config import parse_config
from proxy.store.writer import WriterSettings
from supervisors.errors import MissingError

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "guardrail-proxy"
_ENV = re.compile(r"\{env: ([A-Z_]+)\}")
_VALUE = re.compile(r"\{\{-? *(?P<yaml>toYaml +)?\.(?P<path>[\w.]+)(?: *\| *(?P<filter>\w+)(?: (?P<n>\d+))?)? *\}\}")


def environment(text: str) -> dict[str, str]:
    settings = re.sub(r"(?m)(^| )#.*$", "", text)
    return {name: f"made-up-value-of-{name}".ljust(40, "x") for name in _ENV.findall(settings)}


def problems(text: str) -> list[str]:
    return [str(finding) for finding in check_config(parse_config(text, environment(text)))]


def test_the_example_config_has_no_problem_and_no_warning() -> None:
    assert problems((DEPLOY / "config.example.yaml").read_text("utf-8")) == []


def test_the_example_config_names_the_variable_that_is_not_set() -> None:
    text = (DEPLOY / "config.example.yaml").read_text("utf-8")
    with pytest.raises(MissingError, match="OPENAI_API_KEY is not set"):
        parse_config(text, {})


def test_the_compose_file_gives_the_proxy_what_the_example_config_reads() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    proxy = compose["services"]["proxy"]
    assert set(proxy["environment"]) == set(environment((DEPLOY / "config.example.yaml").read_text("utf-8")))
    assert proxy["read_only"] is True
    assert proxy["cap_drop"] == ["ALL"]
    mounts = [volume.split(":")[0] for service in compose["services"].values() for volume in service["volumes"]]
    assert [mount for mount in mounts if mount.startswith(".") and not (DEPLOY / mount).exists()] == []
    published = [port for service in compose["services"].values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_the_image_is_built_by_hash_runs_without_root_and_says_when_it_is_ill() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8")
    assert lines.count("\nFROM ") + lines.startswith("FROM") == 2
    assert "--require-hashes -r requirements.lock" in lines
    assert "USER 10001:10001" in lines.split("\nFROM ")[-1]
    assert "/livez" in lines
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", lines, re.MULTILINE)
    for name in " ".join(copied).split():
        assert (ROOT / name).exists(), name
        assert f"!{name}" in (ROOT / ".dockerignore").read_text("utf-8").splitlines(), name


def render(template: str, values: dict[str, Any]) -> str:
    """Do what Helm does with the four forms the chart uses; any other form fails the test."""

    def fill(found: re.Match[str]) -> str:
        value: Any = {"Values": values, "Release": {"Name": "demo"}}
        for part in found["path"].split("."):
            value = value[part]
        if found["filter"] == "sha256sum":
            return "0" * 64
        if found["yaml"] is None:
            return str(value)
        assert found["filter"] == "nindent"
        dumped = json.dumps(value, indent=1)  # JSON is YAML
        return "\n" + "\n".join(" " * int(found["n"]) + line for line in dumped.splitlines())

    text = re.sub(r"\s*\{\{-", "{{-", template)  # "{{-" eats the white space before it
    rendered = _VALUE.sub(fill, text)
    assert "{{" not in rendered, rendered
    return rendered


def chart(name: str) -> dict[str, Any]:
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    loaded: dict[str, Any] = yaml.safe_load(render((CHART / "templates" / name).read_text("utf-8"), values))
    return loaded


def test_the_chart_mounts_a_valid_config() -> None:
    config = chart("configmap.yaml")
    text = config["data"]["config.yaml"]
    names = re.findall(r'"env": "([A-Z_]+)"', text)
    loaded = parse_config(text, {name: "made-up".ljust(40, "x") for name in names})
    assert [finding for finding in check_config(loaded) if finding.severity == "error"] == []
    pod = chart("statefulset.yaml")["spec"]["template"]["spec"]
    assert pod["volumes"][0]["configMap"]["name"] == config["metadata"]["name"]


def test_the_chart_runs_without_root_on_a_read_only_root_file_system() -> None:
    pod = chart("statefulset.yaml")["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert chart("service.yaml")["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]


def test_the_pod_outlives_the_drain() -> None:  # O-09
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["proxy"]
    server = parse_config("upstreams: {a: {base_url: http://127.0.0.1:1/v1}}", {}).server
    hanging_up_s, writing_s = 5, WriterSettings().close_s
    needed = server.drain_grace_s + server.drain_timeout_s + hanging_up_s + writing_s
    assert values["terminationGracePeriodSeconds"] > needed
    assert int(compose["stop_grace_period"].removesuffix("s")) > needed
