"""Bodies of the messages about flows: sizes, thresholds, coflows, losses, marks of guests."""
