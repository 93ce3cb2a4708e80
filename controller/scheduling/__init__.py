"""From contention to slots: which links are contended, which hosts are regulated, what is granted, and what became of it."""
