"""Tests: unit/ without real processes, integration/ with the real tools."""
