"""Fabrics on Mininet with the real stack, real traffic and what is measured of them."""
