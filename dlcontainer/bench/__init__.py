"""Benchmarks: native against container, raw samples in a file, a verdict and a report."""
