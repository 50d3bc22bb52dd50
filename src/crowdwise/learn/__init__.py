"""Features and labels in, classifier out: one method, one file; worker models, losses and the one training loop."""
