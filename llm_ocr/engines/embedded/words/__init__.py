"""Stage 1: the words of a page, from its text layer or by detection and recognition."""
