"""Answers held against a user's schema: what is right in them, what is not, and where it stands."""
