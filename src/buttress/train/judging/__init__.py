"""Is an answer right? Judges, each behind a process with a time limit."""
