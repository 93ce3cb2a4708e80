"""Coflows: their order, their deadlines, how hosts are told, and the client for applications."""
