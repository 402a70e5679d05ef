"""Ops with a leading dimension for runs, of lockstep training; private: no part of the package's interface."""
