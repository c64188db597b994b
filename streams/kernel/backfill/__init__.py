"""Planning with run times: reservations, gaps, who makes way in them, promises."""
