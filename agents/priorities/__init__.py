"""Flow priorities (Karuna): the tagger that writes DSCPs, flow size reports, and congestion control for flows with
deadlines.
"""
