"""Pages, charts, figures and tables. Pure functions of results."""
