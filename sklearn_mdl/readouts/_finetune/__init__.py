"""Readouts that look at images: fine-tuned, from scratch, frozen encoders."""
