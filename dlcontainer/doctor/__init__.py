"""What this user may build and run with here, why, and what to type to fix it."""
