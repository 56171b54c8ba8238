"""The commands of `dlcontainer lab`, one file each."""
