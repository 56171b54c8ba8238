"""Forecasts: does it fit, how fast, how many ranks, what limits; from a study or from facts."""
