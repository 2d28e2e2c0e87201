"""What a standby of ours knows of its master, so that a take-over changes nothing for hosts."""
