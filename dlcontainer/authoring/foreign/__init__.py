"""Dockerfiles and definition files: their base, apt and pip lines; every other line is listed."""
