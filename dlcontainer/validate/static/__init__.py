"""Will an image run at a site? Answered from its files: nothing of it runs."""
