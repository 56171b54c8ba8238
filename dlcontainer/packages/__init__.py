"""Where OS and Python packages come from: mirrors, indexes, locks, bundles."""
