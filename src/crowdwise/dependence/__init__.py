"""Which workers err together: pair statistics, tests, groups, families, and how many votes a crowd is worth."""
