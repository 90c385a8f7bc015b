"""Which example comes next: orders of visits, and draws with probabilities."""
