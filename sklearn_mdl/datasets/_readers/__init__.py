"""Readers of embeddings from other programs."""
