"""Parsers of guard replies, one class a format: `supervisors.parsers.registry.PARSERS`. None has a default label."""
