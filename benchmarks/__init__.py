"""Benchmarks of dlcontainer itself: ratios in one run, raw samples kept; see docs/measurements.md."""
