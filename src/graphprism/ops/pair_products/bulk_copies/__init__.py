"""The products with pairs, with tiles that the copy engine of a GPU brings; kernels only, in its `triton` module."""
