"""How pip is told where wheels come from, and what it answers."""
