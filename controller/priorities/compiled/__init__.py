"""Shortest paths of the thresholds' solver in C; the reference, in NumPy, is in `controller.priorities.threshold_solver`."""
