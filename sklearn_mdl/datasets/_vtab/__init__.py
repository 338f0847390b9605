"""The tasks of VTAB, and their images and labels from the owners' files."""
