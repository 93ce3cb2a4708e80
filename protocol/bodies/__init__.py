"""The bodies of messages, by concern."""
