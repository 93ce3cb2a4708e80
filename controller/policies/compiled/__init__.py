"""Policies whose inner loop is compiled C; the same decisions as the ones in Python, which are their reference."""
