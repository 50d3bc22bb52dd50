"""The data model: labels of many workers on many tasks, read from and written to tables."""
