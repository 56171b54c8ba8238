"""Who answers for an image, and what was found out about it: signatures and signed evidence."""
