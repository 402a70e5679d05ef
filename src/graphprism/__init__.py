"""Split the edges of a graph into relations and keep deep graph networks from collapsing to one signal."""

__version__ = "0.1.0"
