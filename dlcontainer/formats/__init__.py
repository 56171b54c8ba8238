"""Plan -> text: one file a format."""
