"""The tasks of VTAB, with images and labels from the data owners' files."""
