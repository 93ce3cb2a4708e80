"""The fabric as a graph: switches, hosts, links, capacities; its active spanning tree and the paths on it.

Pure, but for `files.load`, which opens a file.
"""
