"""Access control: accounts, sessions, rate limits of logins."""
