"""Passes on collectives: fewer messages, started early and awaited late."""
