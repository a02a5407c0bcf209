"""One module per function: takes adapters, asks ``decide``, returns a small result."""
