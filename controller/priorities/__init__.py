"""Flow priorities (Karuna): sizes that hosts report, thresholds computed from them, and coflows."""
