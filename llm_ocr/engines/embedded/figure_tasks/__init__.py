"""Figures: captions, descriptions, classes, data."""
