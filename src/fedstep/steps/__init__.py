"""How far: constant and scheduled steps, and the line search."""
