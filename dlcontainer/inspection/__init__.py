"""What is in an image, and how two images differ; nothing of an image runs."""
