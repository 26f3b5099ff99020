"""Read the configs of other gateways and write ours."""
