"""Every formula behind a printed number: intervals, clusters, paired tests, agreement, curves.

Pure functions over counts and values. Only `evals.statistics.bootstrap` uses numpy. Definitions of the named
metrics built on them are in `evals.metrics`; the formulas and their test vectors are described in docs/statistics.md.
"""
