"""The times of single steps: their scatter, slow ranks, and nodes outside of their kind."""
