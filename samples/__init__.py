"""Sample documents written for Chunkscope, with the questions asked of them."""
