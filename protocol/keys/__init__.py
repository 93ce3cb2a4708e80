"""Keys: one for each host, derived from the controllers' master key; signatures and hash chains for what goes to all."""
