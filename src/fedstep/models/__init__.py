"""Models as functions of one flat parameter vector."""
