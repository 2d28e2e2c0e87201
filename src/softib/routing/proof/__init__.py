"""Who reaches whom, and which channel waits for which: tables and their proof."""
