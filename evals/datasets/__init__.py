"""Dataset cards, readers and loaders."""
