"""The catalogue of a published tree: all that is live, as a page for people and as JSON."""
