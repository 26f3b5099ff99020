"""Logs of other harnesses in, our runs out."""
