"""The decision journal."""
