"""Commands at a real store."""
