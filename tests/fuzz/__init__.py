"""Fuzzing: the table of readers, hostile texts, and how bytes are changed."""
