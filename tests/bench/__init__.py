"""What ``make bench`` measures: cold starts, the demo, and the mirror beside other tools."""
