"""A cabling plan compared with a fabric, cable by cable."""
