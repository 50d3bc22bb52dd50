"""The page that shows an audit: its sentences, tables, view and charts."""
