"""ibnetdiscover's text and ibsim's netlists, which have the same syntax."""
