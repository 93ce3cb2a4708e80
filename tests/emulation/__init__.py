"""Tests on a real kernel with real Open vSwitch, Redis and TCP; the folders follow the project's."""
