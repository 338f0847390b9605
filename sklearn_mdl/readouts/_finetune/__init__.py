"""Readouts of images: fine-tuned encoders, networks from scratch, frozen encoders."""
