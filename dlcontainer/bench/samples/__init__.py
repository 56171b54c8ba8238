"""The file of raw samples: records, reading, writing, what is comparable."""
