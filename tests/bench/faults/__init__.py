"""Load and faults: many clients on both servers and a worker, while database, processes and network fail."""
