"""Runs held against each other: what is comparable, what differs, and which items changed."""
