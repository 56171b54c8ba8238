"""Plan -> image, step by step."""
