"""Schemas that come with llm_ocr; each file is an example of a user's own."""
