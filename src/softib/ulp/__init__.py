"""Upper-layer protocols over verbs: the protocols of applications above the fabric."""
