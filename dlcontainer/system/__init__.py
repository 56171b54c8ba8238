"""This host: processes, files, locks, facts."""
