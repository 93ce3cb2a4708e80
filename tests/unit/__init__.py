"""Tests that need no root, no clock and no network; the folders follow the project's."""
