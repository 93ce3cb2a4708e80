"""The coordinator's process: its loop, the standby that waits for a lease, and the bridge to the store."""
