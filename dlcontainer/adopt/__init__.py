"""An image of somebody else's becomes one that is validated, published and measured as any."""
