"""The host agent: it classifies what a host sends, opens and closes gates as the coordinator directs, and puts the
interface back.
"""
