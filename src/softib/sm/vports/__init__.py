"""Virtual ports of adapters, in layouts that are softib's own (:mod:`softib.iba.vendor.vports`)."""
