"""Measure the proxy beside its peers in one run: ``python -m bench`` (docs/performance.md)."""
