"""Child process of `proxy.local`: reads its options from stdin, serves until stdin closes, prints its address."""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def main() -> None:
    """Start llama.cpp's server and wait for the parent to go away."""
    # an optional extra without type information, imported only in the process that needs it
    xllamacpp: Any = importlib.import_module("xllamacpp")
    options = json.loads(sys.stdin.readline())
    params = xllamacpp.CommonParams()
    params.model.path = options["path"]
    params.model_alias = {options["alias"]}
    params.n_ctx = options["n_ctx"]
    params.n_parallel = options["slots"]
    params.cpuparams.n_threads = options["threads"]
    params.cpuparams_batch.n_threads = options["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = options["port"]
    params.api_keys = [options["api_key"]]
    params.offline = True
    params.use_jinja = True
    params.endpoint_metrics = True
    params.ui = False
    params.verbosity = -1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
