"""Who has to leave for whom, and claims on what they leave."""
