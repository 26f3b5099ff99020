"""One adapter a route family between wire bodies and canonical segments."""
