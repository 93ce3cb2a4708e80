"""The steps policy: aligned steps, each a maximal matching."""
