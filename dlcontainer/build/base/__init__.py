"""The base of an image: a distribution's minimal root tree, or an image of a registry."""
