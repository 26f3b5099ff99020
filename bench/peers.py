"""Peers in environments of their own, named on the command line: LiteLLM, NeMo Guardrails, Portkey, any other.

Each is started the way its makers serve it, with guards that do as little as possible, and warmed up.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.bodies import BEHAVIOURS, EXPECT, whole_body
from bench.native import Invalid, count
from bench.process import free_port, run
from bench.targets import BEHAVIOUR, Target

_NOOP: Final = """from litellm.integrations.custom_guardrail import CustomGuardrail


class NoOp(CustomGuardrail):
    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        return data

    async def async_post_call_success_hook(self, data, user_api_key_dict, response):
        return response
"""


@contextmanager
def litellm(folder: Path, upstream: Target, environment: Path) -> Generator[Target]:
    """Run LiteLLM's proxy with three no-op guards before and three after the call, one worker.

    Raises:
        Invalid: the environment has no ``litellm`` command.
    """
    program = _program(environment, "bin/litellm")
    work = folder / "litellm"
    work.mkdir()
    (work / "noop.py").write_text(_NOOP)
    config = {
        "model_list": [
            _litellm_model(name, f"http://127.0.0.1:{upstream.port}{path}/v1") for name, path in BEHAVIOURS.items()
        ],
        "guardrails": [
            {
                "guardrail_name": f"{mode}{number}",
                "litellm_params": {"guardrail": "noop.NoOp", "mode": mode, "default_on": True},
            }
            for mode in ("pre_call", "post_call")
            for number in range(3)
        ],
        "litellm_settings": {"telemetry": False, "request_timeout": 60},
    }
    path = work / "config.yaml"
    path.write_text(json.dumps(config))  # JSON is YAML
    port = free_port()
    command = [program, "--config", str(path), "--port", str(port), "--host", "127.0.0.1", "--num_workers", "1"]
    settings = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOG": "ERROR",
        "PYTHONPATH": str(work),
    }
    with run(command, port, folder, patience_s=180, settings=settings) as process:
        yield _ready(Target("litellm", port, process, warm_s=6.0), patience=60)


def _litellm_model(name: str, base: str) -> dict[str, object]:
    return {"model_name": name, "litellm_params": {"model": "openai/m", "api_base": base, "api_key": "sk-bench"}}


_NEMO_CONFIG: Final = """models:
  - type: main
    engine: openai
    model: m
    parameters: {{base_url: "http://127.0.0.1:{port}/v1", api_key: sk-bench}}
rails:
  config:
    regex_detection:
      input: {{patterns: ["purple canary [0-9]+"]}}
      output: {{patterns: ["purple canary [0-9]+"]}}
  input: {{flows: [regex check input]}}
  output: {{flows: [regex check output]}}
"""


@contextmanager
def nemo(folder: Path, upstream: Target, environment: Path) -> Generator[Target]:
    """Run the NeMo Guardrails server on its fast engine with one regex rail on each side.

    Raises:
        Invalid: the environment has no ``nemoguardrails`` command.
    """
    program = _program(environment, "bin/nemoguardrails")
    work = folder / "nemo" / "fast"
    work.mkdir(parents=True)
    (work / "config.yml").write_text(_NEMO_CONFIG.format(port=upstream.port))
    port = free_port()
    command = [program, "server", "--config", str(work.parent), "--port", str(port), "--default-config-id", "fast"]
    settings = {"NEMO_GUARDRAILS_IORAILS_ENGINE": "1", "OPENAI_API_KEY": "sk-bench", "MAIN_MODEL_ENGINE": "openai"}
    settings["MAIN_MODEL_BASE_URL"] = f"http://127.0.0.1:{upstream.port}/v1"
    with run([*command, "--disable-chat-ui"], port, folder, patience_s=120, settings=settings) as process:
        yield _ready(Target("nemo", port, process, warm_s=5.0, fixed=True), patience=30)


@contextmanager
def portkey(folder: Path, upstream: Target, environment: Path) -> Generator[Target]:
    """Run Portkey's gateway with one regex guard before and one after the call.

    Raises:
        Invalid: the folder has no ``@portkey-ai/gateway``, or node is missing.
    """
    node = shutil.which("node")
    server = environment / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    if node is None or not server.exists():
        msg = f"{environment} holds no @portkey-ai/gateway, or node is not installed"
        raise Invalid(msg)
    check = [{"id": "default.regexMatch", "parameters": {"rule": "purple canary [0-9]+", "not": True}}]
    guard = [{"type": "guardrail", "deny": False, "checks": check}]
    config = {
        "provider": "openai",
        "custom_host": f"http://127.0.0.1:{upstream.port}{BEHAVIOUR}/v1",
        "api_key": "sk-bench",
        "before_request_hooks": guard,
        "after_request_hooks": guard,
    }
    port = free_port()
    headers = (f"x-portkey-config: {json.dumps(config)}",)
    settings = {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1", "NODE_ENV": "production"}
    with run(
        [node, str(server), f"--port={port}", "--headless"], port, folder, patience_s=60, settings=settings
    ) as process:
        yield _ready(Target("portkey", port, process, warm_s=10.0, headers=headers), patience=30)


@contextmanager
def command(folder: Path, upstream: Target, template: str) -> Generator[Target]:
    """Run any other gateway: ``NAME=COMMAND`` where the command's {port} and {upstream} are filled in.

    Raises:
        Invalid: not of that form, or the program is not installed.
    """
    name, _, line = template.partition("=")
    port = free_port()
    words = [word.format(port=port, upstream=upstream.port) for word in line.split()]
    if not words or shutil.which(words[0]) is None:
        msg = f"{template!r}: write NAME=COMMAND with {{port}} and {{upstream}} in it; the program must be installed"
        raise Invalid(msg)
    with run(words, port, folder, patience_s=60) as process:
        yield _ready(Target(name, port, process, fixed=True), patience=30)


def _program(environment: Path, name: str) -> str:
    program = environment / name
    if not program.exists():
        msg = f"{program} does not exist"
        raise Invalid(msg)
    return str(program.absolute())


def _ready(target: Target, patience: int) -> Target:
    """Wait until one request goes through: some servers listen long before they serve.

    Raises:
        Invalid: none does.
    """
    problem = ""
    for _ in range(patience):
        try:
            count(whole_body("fast"), EXPECT, target.address("fast"), connections=1, requests=1)
        except Invalid as error:
            problem = str(error)
            time.sleep(1)
        else:
            return target
    log = target.process.log.read_text("utf-8", "replace")[-600:]
    msg = f"{target.name} serves nothing: {problem}; its output ends: {log}"
    raise Invalid(msg)


def versions(environments: Iterable[tuple[str, Path]]) -> dict[str, str]:
    """Return the installed version of each Python peer by package name."""
    found: dict[str, str] = {}
    for package, environment in environments:
        python = environment / "bin" / "python"
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
        found[package] = done.stdout.strip() or "unknown"
    return found
