"""The parts of an audit: one file a kind of finding, each a generator of faults."""
