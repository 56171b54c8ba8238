"""Container engines: argv for building and running, and which mode works here."""
