"""Review of results by people: the queue with its claims, corrections, and decisions."""
