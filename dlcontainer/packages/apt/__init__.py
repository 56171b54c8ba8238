"""How apt is told where packages come from, and what it answers."""
