"""The dashboard's page in a real browser: ways through it, and its lists."""
