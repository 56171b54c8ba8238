"""The variables of a user's environment, and the proxies that they name."""
