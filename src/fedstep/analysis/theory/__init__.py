"""The theorems against a run: what their hypotheses ask for, what is there, and how far the run
is from each bound.
"""
