"""A published tree of generations: each change is made beside what is live, then switched to."""
