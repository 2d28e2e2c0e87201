"""ibnetdiscover's text and ibsim's netlists, which share one grammar."""
