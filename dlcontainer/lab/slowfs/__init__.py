"""The stand-in for a parallel file system: a counting pass-through with latency and a queue.

It speaks the kernel's FUSE protocol itself. libfuse's high-level interface (and every ready-made
Python binding with wheels) makes one call of a look-up and of a stat, and both must be counted.
"""
