"""What the server does: rules, readouts, weighting, sampling."""
