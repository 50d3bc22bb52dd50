"""The page that shows an audit: its tables, view and charts."""
