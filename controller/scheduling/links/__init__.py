"""What links carry, and how much of it members are granted: what hosts without an agent take, and what empties buffers."""
