"""Files of chained lines that hold records of a few kinds: matrices, sessions of jobs."""
