"""Launches, pair by pair: the samples are made here."""
