"""Who may do what: accounts, sessions, rate limits."""
