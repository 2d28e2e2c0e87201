"""Virtual ports of adapters, in softib's own layouts (:mod:`softib.iba.vendor.vports`)."""
