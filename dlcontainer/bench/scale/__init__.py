"""Import at scale: the factors of the protocol as a matrix, cell by cell in rounds."""
