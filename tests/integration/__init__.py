"""Tests with real processes and tools, one file each."""
