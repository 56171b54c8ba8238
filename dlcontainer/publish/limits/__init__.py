"""A published tree -> what root of a cluster tells the engine: which images may run, and whose."""
