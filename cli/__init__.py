"""The `baton` command: a small file for each command or group of commands."""
