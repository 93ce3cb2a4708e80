"""The agent as a member of the fabric: registration, heartbeats, clock synchronisation, reports, upkeep, and keys."""
