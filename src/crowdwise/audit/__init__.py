"""Worker models to verdicts: who guesses, who copies, which classes and tasks are in doubt, and how sure that is."""
