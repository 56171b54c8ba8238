"""What runs inside images: copied as one folder; standard library only, Python >= 3.6."""
