"""File formats, whoever wrote them: JSON lines, tables, Parquet, CSV, pickles (refused)."""
