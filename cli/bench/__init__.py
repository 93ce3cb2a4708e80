"""`baton bench`: one module for each group of benchmarks."""
