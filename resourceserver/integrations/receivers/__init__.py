"""What applications send in their own formats: a module for each, and the transaction that writes it."""
