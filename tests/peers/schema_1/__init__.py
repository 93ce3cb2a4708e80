"""What a store of schema 1 held: `store.json`, and the script that recorded it."""
