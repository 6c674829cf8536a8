"""A small OpenID Connect provider for tests: whoever comes picks a user, without a password.

It follows OpenID Connect Core 1.0 (authorization code flow, RS256), Discovery 1.0, RP-Initiated Logout 1.0 and RFC 7636 (PKCE, S256).
"""
