"""Documents that cross a boundary, as strict models. No I/O, no clock."""
