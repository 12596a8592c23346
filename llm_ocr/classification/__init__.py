"""Classify pages: descriptors of a page, an index of examples, and a test for unknown kinds."""
