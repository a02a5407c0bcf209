"""Decisions as pure functions: no I/O, no clock, nothing that differs between two calls."""
