"""What verbs share: options, output, completion, plain text, usage errors."""
