"""Unit tests: one file a module, no real process unless a test asks for it."""
