"""What a client does in a round: terms, oracle, direction and the one loop over batches."""
