"""The one loop over rounds, what it records and how it is evaluated."""
