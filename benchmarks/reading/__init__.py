"""How well documents are read: all sets in one table, comparison of two versions, ablation."""
