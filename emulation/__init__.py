"""Fabrics emulated on Mininet: Baton's real processes over them, real traffic, and measurements."""
