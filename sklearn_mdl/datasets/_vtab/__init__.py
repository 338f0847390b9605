"""The tasks of VTAB, with images and labels from the owners' files."""
