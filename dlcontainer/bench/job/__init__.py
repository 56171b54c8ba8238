"""The user's own command as a job, native and container, from its submission to its last exit."""
