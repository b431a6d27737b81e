"""Runs while they go on: the report's page of a folder, drawn anew after every round."""
