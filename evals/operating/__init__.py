"""What supervisors would do at other thresholds and in other combinations, from stored verdicts; no call is made."""
