"""Machines with nothing on them: what the two commands of the README come to there."""
