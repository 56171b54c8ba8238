"""Published networks that training is measured with: their counts, and what follows from them."""
