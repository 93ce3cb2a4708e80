"""`baton up`: the supervisor, the processes that it starts, and what it checks before."""
