"""Flow priorities (Karuna): sizes that hosts report, and thresholds computed from them."""
