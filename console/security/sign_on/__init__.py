"""Signing in by an OpenID Connect provider: off unless its settings are given (docs/CONSOLE.md)."""
