"""Does it fit, how fast, how many ranks, what next: what a forecast answers, and its file."""
