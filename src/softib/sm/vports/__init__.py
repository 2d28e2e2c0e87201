"""Virtual ports of adapters, in layouts specific to softib (:mod:`softib.iba.vendor.vports`)."""
