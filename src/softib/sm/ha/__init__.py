"""Which of several managers is the master."""
