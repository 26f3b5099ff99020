"""A gate for CI: rules, decisions with intervals, and the files and exit code that a job acts on."""
