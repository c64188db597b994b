"""Jobs on their way: lines they stand in, attempts, what follows from their ends."""
