"""The theory as functions: will a split keep nodes apart, and is a model collapsing?"""
