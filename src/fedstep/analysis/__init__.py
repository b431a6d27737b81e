"""What runs left behind, as numbers: results read back, summaries, statistics, tables of all
rounds, theorems.
"""
