"""Functions that read and prepare pictures."""
