"""Rules of MPI and of fabrics: is there what ranks and GPUs reach each other by."""
