"""A swarm of protocol-exact agents in one process, and a model of their links, against the real coordinator."""
