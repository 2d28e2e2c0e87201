"""softib's subnet manager on any umad device: hardware, a running fabric of softib, ibsim."""
