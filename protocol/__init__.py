"""The protocol between controller and hosts: frames, authentication, paging, PFC. Pure, but for the modules whose first
line says that they are an edge.
"""
