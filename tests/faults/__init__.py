"""A command, its calls that change files, and an oracle: SIGKILL or an error at each of them."""
