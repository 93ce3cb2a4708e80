"""The OpenFlow application: discovery, learned hosts, forwarding, roles and TLS."""
