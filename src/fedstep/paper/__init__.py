"""The paper's own: its toy problem, the demo, and the studies as files."""
