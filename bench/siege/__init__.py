"""A siege: what Baton defends against, all at once, on an emulated fabric under load."""
