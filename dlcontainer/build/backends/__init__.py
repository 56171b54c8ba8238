"""What runs the steps of a build: Apptainer on a tree, Docker and Podman in layers."""
