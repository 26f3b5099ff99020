"""Supervisors: anything that judges an exchange. See docs/supervisors.md."""
