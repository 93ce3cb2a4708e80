"""Access control: accounts, sessions, limits of logins and event streams, what is told of refused logins."""
