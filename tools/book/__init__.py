"""The book: docs/ as a site with shelves, a command reference and schemas; `make docs`.

Sphinx with MyST and Furo: it is maintained, reads plain Markdown, builds without a network, and
its strict mode ends with an error for what leads nowhere.
"""
