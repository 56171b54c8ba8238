"""Statistics of paired samples. Pure."""
