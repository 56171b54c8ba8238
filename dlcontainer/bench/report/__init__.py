"""Analyses -> a page, Markdown, CSV and JSON; nothing is measured here."""
