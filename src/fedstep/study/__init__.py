"""Studies: the file, the plan of its runs, tuning, and the pool that runs them."""
