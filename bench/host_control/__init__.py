"""Fine-grained host control, measured as in the thesis: `baton bench host-control`. The method is in `experiment`."""
