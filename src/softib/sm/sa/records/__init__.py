"""Records of subnet administration, one file each."""
