"""Conventions the rest stands on: vectors, batches, seeds, errors."""
