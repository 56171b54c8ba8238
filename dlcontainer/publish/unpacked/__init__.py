"""An image as a folder of its files: for CernVM-FS, which fetches each block on demand."""
