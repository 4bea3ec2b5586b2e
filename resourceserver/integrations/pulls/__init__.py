"""What the worker pulls from other services: a module for each, and the turn that writes it."""
