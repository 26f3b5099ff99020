"""Verbs of ``guardrail-proxy``, one module a subcommand, each with `add_parser` and `run`."""
