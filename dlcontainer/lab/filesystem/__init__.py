"""What a command asks of a file system, and what a file system gives."""
