"""Baton at scale in ns-3: flows on spine-leaf fabrics under DCTCP, PIAS, pFabric and Karuna. Only this package needs ns-3."""
