"""Clients that are connected."""
