"""Communication traces of any PyTorch job: what waits for whom, and what it costs."""
