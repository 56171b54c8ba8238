"""Known vulnerabilities of what an image's bill lists, by a folder or zip of OSV records."""
