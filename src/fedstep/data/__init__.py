"""Clients' samples and how a round walks through them."""
