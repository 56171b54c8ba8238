"""Build, validate and publish deep-learning containers for supercomputing centres."""

__version__ = "0.17.0"
