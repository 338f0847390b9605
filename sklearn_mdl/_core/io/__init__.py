"""Append-only arrays, safetensors files, parameters as JSON, the environment."""
