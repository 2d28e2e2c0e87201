"""Upper-layer protocols over verbs: what applications speak on top of the fabric."""
