"""Hosts of one machine on a slow network: namespaces, and a switch in user space between them."""
