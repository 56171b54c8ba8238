"""Benchmarks of dlcontainer itself: ratios in one run, raw samples kept."""
