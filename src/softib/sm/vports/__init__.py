"""Virtual ports of adapters. Some of their MAD layouts are defined by softib
(:mod:`softib.iba.vendor.vports`)."""
