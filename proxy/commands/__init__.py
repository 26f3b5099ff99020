"""One module for each sub-command of `guardrail-proxy`: `add_parser(subparsers)` and `run(args) -> int`."""
