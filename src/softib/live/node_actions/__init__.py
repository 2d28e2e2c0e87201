"""What a failed check of a host does to its scheduler: drains it in Slurm, labels and taints it in
Kubernetes."""
