"""Export: all data of one person that a token may read, in one file."""
