"""What is measured of a run: how faithful the emulation was, ping, processors, pictures."""
