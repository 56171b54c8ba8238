"""A finished image: its file format, its record and bill of materials, its contents."""
