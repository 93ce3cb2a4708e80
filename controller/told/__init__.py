"""Which pairs need permission, as members are told it: by contended link, or as a list of destinations."""
