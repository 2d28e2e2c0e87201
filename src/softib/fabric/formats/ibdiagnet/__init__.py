"""ibdiagnet's files: .db_csv and .lst."""
