"""What switches hold: the tables that are wanted, and the order in which a change of them is safe. Pure."""
