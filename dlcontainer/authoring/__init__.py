"""From the file in a user's hands to a recipe."""
