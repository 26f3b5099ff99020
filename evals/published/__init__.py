"""Numbers that others have published, read from their files, to stand beside ours (datasets §10)."""
