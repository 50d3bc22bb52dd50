"""Labels in, consensus and worker models out: one method, one file."""
