"""Checks of an image against a site."""
