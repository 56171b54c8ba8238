"""How values scatter: by level, from rank to rank, from node to node."""
