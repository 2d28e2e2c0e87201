"""ibdm's .topo files and the IBNL descriptions of their systems."""
