"""The leaderboard: what it costs to reach a target, tuning counted.

A track and an entry are TOML files. Together they are a study (`match`), whose outcome is one JSON
file (`outcome`) that tables and the page are made of.
"""

FOLDER = "results/leaderboard"  # where results lie when nothing else is said
