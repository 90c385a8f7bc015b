"""Pictures of the pages that are no measurements."""
