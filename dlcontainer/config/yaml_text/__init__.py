"""YAML as text: events, scalars and files, each value with its line."""
