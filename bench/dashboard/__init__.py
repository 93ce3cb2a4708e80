"""The benchmark of the dashboard under a large fabric."""
