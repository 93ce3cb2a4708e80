"""Tests of controller/scheduling/ on a real fabric."""
