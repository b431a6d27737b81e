"""Clients elsewhere: what travels, what is checked, and the rounds of such a run.

No transport here: whoever carries parcels between the server and its nodes is a `Courier`.
"""
