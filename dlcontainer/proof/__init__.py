"""Proofs of jobs: read, held against image and site, and how far a site got by them."""
