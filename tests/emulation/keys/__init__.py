"""Keys on emulated fabrics: one host taken over, keys revoked, and keys changed under traffic."""
