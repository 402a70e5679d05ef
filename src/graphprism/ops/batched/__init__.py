"""Ops with a leading dimension for runs, for lockstep training; private."""
