"""Reads jobs of other systems' notations, and writes them as job files."""
