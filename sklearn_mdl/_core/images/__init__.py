"""Functions that read and prepare images."""
