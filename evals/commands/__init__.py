"""The verbs of the command `evals`, one file each."""
