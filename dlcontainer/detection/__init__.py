"""What a node is, read from the node; a first site file of it, and what moved since."""
