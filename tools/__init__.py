"""What developers run in a checkout. Nothing here is installed."""
