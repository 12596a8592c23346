"""Write what was read of a document in the formats that other programs read."""
