"""Tests of the web server among clients that mean it harm."""
