"""What a number of ``active`` speaks of."""

# Rows of a tile.
TILE = 64
# Relations at most: the kernels are written out for each of them.
MOST_RELATIONS = 8
