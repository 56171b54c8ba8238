"""Sentences of a report."""
