"""A user's file of Python packages, one module a format: text in, wishes or refusals out."""
