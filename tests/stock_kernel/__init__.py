"""Tests that run on Debian's own kernel under QEMU."""
