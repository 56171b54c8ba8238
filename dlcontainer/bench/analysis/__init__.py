"""Raw samples -> figures and a verdict. Pure."""
