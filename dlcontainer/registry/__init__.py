"""Registries: what they have under a tag or a digest, asked before an engine pulls it."""
