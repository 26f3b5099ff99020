"""The harness that measures supervision. See docs/evals.md."""
