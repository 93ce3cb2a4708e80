"""The OpenFlow application before a swarm of switches."""
