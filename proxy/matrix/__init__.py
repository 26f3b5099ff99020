"""The coverage matrix: a canary in every place of every route, through the real application, and what came of it."""
