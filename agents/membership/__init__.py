"""The agent's place in the fabric: registration, heartbeats, clock synchronisation, reports and health, and the fabric's
key.
"""
