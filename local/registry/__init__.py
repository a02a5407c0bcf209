"""An OCI registry of one machine, with ECR's habits: Basic tokens that expire, immutable tags, no deletes.

``LocalRegistry`` is a context manager; ``TokenIssuer`` makes the passwords it accepts. Nothing needs to be
installed for it, and the same test cases run against it and against a real registry.
"""

from local.registry.server import LocalRegistry, serving
from local.registry.store import FileStore, MemoryStore, Store
from local.registry.tokens import Grant, Scope, TokenIssuer

__all__ = ["FileStore", "Grant", "LocalRegistry", "MemoryStore", "Scope", "Store", "TokenIssuer", "serving"]
