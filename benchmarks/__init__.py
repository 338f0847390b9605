"""Benchmarks. ``python -m benchmarks`` lists them; see README.md to add one."""
