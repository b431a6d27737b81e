"""A Flower app whose clients find their step sizes."""
