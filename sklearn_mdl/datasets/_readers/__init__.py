"""Embeddings in the files of other programs."""
