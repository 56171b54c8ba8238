"""Rows: one thing that a launch measures at several settings; declared, kept and verified."""
