"""The set-up of an engine: Apptainer and its helper programs, from the distribution or private.

`make setup` runs it before any package is installed: it imports the standard library alone.
"""
