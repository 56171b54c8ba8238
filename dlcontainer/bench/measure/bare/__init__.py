"""The image's own Python on the host, without an engine: its tree, its loader, its arm."""
