"""Scaling studies: a training at several numbers of ranks, native against container at each."""
