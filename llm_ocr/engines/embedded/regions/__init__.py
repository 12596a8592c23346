"""Stage 2: typed regions of a page, by the layout model and by how lines stand."""
