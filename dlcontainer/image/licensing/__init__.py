"""Licences: their names, and what vendors' texts say of passing a library on."""
