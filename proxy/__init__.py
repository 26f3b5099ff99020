"""The OpenAI-compatible proxy: the line of a request. See docs/proxy.md."""
