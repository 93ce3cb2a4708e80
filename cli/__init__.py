"""The `baton` command: a module for each command or group of commands."""
