"""Tests of the page's own scripts, which Node.js runs."""
