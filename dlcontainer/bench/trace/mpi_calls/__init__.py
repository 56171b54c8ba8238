"""Calls of MPI that the processes of a job made: worlds, waits, rows, and a part of the OTF2."""
