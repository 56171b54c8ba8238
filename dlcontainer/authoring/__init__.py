"""From a user's own file of Python packages to a recipe: parent, pins, modules, text."""
