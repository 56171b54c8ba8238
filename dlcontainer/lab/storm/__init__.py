"""Will many ranks that import at once storm the file system? Answered before they do."""
