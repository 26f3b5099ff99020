"""What a run was made under: machine, versions, load. Printed with every result, because figures do not travel."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from bench.targets import version_of


def conditions(peers: Mapping[str, str]) -> dict[str, str]:
    """Return the conditions by name."""
    names = ("uvicorn", "uvloop", "httptools", "orjson", "fastapi", "litellm")
    return {
        "processor": _processor(),
        "cores": f"{len(os.sched_getaffinity(0))} usable, targets on one, tools on another",
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "python": f"CPython {platform.python_version()}, {_build()}",
        "packages": ", ".join([f"{name} {_version(name)}" for name in names]),
        "nginx": version_of([shutil.which("nginx") or "/usr/sbin/nginx", "-v"]).removeprefix("nginx version: "),
        "compiler": version_of([shutil.which("gcc") or shutil.which("cc") or "cc", "--version"]),
        "peers": ", ".join([f"{name} {version}" for name, version in peers.items()]) or "none named",
        "load average before": f"{os.getloadavg()[0]:.2f}",
        "pinned": "yes"
        if shutil.which("taskset") and len(os.sched_getaffinity(0)) > 1
        else "no: taskset or a core lacks",
        "command": " ".join(["python -m bench", *[_plain(word) for word in sys.argv[1:]]]),
    }


def _build() -> str:
    """Say how the interpreter was compiled: with a profile it is about a fifth faster."""
    options = str(sysconfig.get_config_var("CONFIG_ARGS"))
    profiled = "with" if "--enable-optimizations" in options else "without"
    linked = "with" if "--with-lto" in options else "without"
    configured = f"configured {profiled} --enable-optimizations and {linked} --with-lto"
    return f"compiled by {platform.python_compiler()}, {configured}{_MADE_BY_DEBIAN if _DEBIAN in options else ''}"


_DEBIAN = "--with-wheel-pkg-dir=/usr/share/python-wheels/"
"""An option that Debian's packages of Python are configured with."""
_MADE_BY_DEBIAN = " (a package of Debian, whose build calls `make profile-opt` and names its own flags)"


def _plain(word: str) -> str:
    return Path(word).name if word.startswith("/") else word  # no paths of the machine in a published table


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return f"{line.partition(':')[2].strip()}, {platform.machine()}"
    return platform.machine()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
