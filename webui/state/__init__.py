"""The reader of the store, and the JSON documents that it makes for the dashboard."""
