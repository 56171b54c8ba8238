"""Recipes: what is in an image, step by step, and how to prove that it works."""
