"""Channel adapters: streams of queue pairs, messages, acknowledgements."""
