"""One module per outside system: every call has a timeout, a bounded retry and a typed error."""
