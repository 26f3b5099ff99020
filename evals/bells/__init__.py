"""The BELLS suites: supervisor scores and metacognitive coherence."""
