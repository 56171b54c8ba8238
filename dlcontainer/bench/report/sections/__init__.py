"""Sections of a report, each with its figures and tables."""
