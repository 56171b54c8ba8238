"""From the names that a user wants to the pins of an image: uv, or pip where it can."""
