"""What all processes of Baton share: identity, supervised children, JSON lines between two processes, logging."""
