"""Flow priorities (Karuna): the tagger that writes DSCPs, reports of flow sizes, and congestion control for flows with
deadlines.
"""
