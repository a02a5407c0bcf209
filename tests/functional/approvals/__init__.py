"""The approval pages through their real handler."""
