"""Marks that skip a test where a program is missing, and name the package."""

from __future__ import annotations

import shutil

import pytest

CHROMIUM = pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed: apt-get install chromium")
REDIS = pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")
