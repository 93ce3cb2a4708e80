"""The fabric as a graph: switches, hosts, links, capacities; its active spanning tree and the paths on it.

Pure: values in, values out. `files.load` alone opens a file.
"""
