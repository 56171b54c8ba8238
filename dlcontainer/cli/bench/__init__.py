"""The commands of `dlcontainer bench`, one file each."""
