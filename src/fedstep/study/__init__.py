"""From results to tables, charts and pages. Pure functions of what runs left behind."""
