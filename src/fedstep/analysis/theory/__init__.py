"""The paper's theorems: what they ask for, what they promise, and whether it is true."""
