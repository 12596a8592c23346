"""Stage 4: blocks with their labels, in reading order."""
