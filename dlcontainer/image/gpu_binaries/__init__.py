"""GPU code in programs and libraries: for which GPUs it is. Nothing runs, little is unpacked."""
