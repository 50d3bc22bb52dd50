"""One file for each command: its options, its work and its page. `app` takes in every file of this folder."""
