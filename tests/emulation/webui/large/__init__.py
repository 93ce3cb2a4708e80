"""The dashboard, its lists and metrics with a fabric so large that it is shown as groups."""
