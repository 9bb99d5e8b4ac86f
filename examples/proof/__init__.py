"""The proof: what vectors of a pretrained model are worth on tasks that anyone can repeat."""
