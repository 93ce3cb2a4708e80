"""The bodies of messages, one module for each concern."""
