"""What the OpenFlow application tells the store, and what it learns there."""
