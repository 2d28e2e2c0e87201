"""Changes of forwarding tables: can a credit loop arise between old and new tables?"""
