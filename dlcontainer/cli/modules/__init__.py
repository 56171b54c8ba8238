"""The group `dlcontainer modules`: what staff do with a published tree."""
