"""What surrounds a launch at a site: flags, binds, libraries, variables; in a job, or here."""
