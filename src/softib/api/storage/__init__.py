"""Block storage over a running fabric: NVMe over Fabrics, target and initiator."""
