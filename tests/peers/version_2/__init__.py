"""A peer of version 2: `frames.json`, the script that recorded it, and the players that say it."""
