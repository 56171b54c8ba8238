"""An image becomes a module that users load."""
