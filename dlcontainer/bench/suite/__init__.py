"""A session of each probe that an image has something for, in one folder."""
