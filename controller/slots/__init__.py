"""What becomes of slots: told once to every listener, counted, and summed up to the bytes that were permitted."""
