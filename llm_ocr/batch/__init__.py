"""One worker's run: shards -> stages -> tables, progress, summary."""
