"""Hosted guards and small judging services, one file a service; what they share is in `judging` and `replies`."""
