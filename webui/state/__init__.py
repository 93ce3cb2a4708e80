"""What is shown: the store's reader, and the shapes that it makes of what it reads."""
