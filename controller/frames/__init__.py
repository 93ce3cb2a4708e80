"""Frames of members in and directives out, in batches, by a library in C: what the coordinator's loop does most often."""
