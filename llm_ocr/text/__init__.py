"""Read words, numbers, dates, currencies and tables as documents write them."""
