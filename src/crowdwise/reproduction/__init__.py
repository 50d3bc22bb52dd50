"""The papers' tables and figures, described as data: run, judged against what was published, and told in the open."""
