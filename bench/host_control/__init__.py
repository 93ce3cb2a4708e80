"""Fine-grained host control, measured like the thesis: `baton bench host-control`; `experiment` says how."""
