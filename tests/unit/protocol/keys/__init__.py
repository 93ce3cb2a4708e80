"""Keys of hosts, signatures, hash chains, and how frames are authenticated by them."""
