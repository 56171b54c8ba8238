"""Set-up scripts for the machine: standard library only, they run before any venv exists."""
