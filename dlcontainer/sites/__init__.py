"""Sites: where an image runs."""
