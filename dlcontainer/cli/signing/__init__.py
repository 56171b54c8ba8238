"""The commands of signatures, evidence, and the registry that both go through."""
