"""The laboratory: a slow file system and a slow network that stand in for real ones."""
