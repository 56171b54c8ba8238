"""A layer of Python packages on an image that is there: nothing of the image is replaced."""
