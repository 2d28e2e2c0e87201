"""The transport's receivers, READs and atomics, retransmission, RNR."""
