"""`baton up`: the supervisor, its child processes, the checks before it starts them, and what it records of them."""
