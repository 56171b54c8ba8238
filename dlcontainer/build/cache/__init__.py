"""Kept results: of steps, of bases, and of what earlier builds left."""
