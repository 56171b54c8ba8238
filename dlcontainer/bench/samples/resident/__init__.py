"""Resident groups in a session's file: plan, order, every raw value, and what must agree."""
