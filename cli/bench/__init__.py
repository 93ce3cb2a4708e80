"""`baton bench` and its groups."""
