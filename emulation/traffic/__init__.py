"""Traffic on an emulated fabric: traffic programs, lists of flows and coflows, and runs that measure them."""
