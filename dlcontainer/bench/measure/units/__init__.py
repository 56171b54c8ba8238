"""The units of a session: fresh launches, or groups of resident processes."""
