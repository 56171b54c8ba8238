"""Faults of a comparison, planted on one side: read from lists, put in place, recorded."""
