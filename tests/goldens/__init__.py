"""The Markdown that examples and generated pages are known to give."""
