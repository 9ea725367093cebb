"""And live? Remedies and monitors inside a running trainer; never an error in a step."""
