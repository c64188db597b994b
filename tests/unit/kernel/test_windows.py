"""Who may start where, and when, beside what is reserved by request."""
