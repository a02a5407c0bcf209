"""The program behind every function of the pipeline.

Imports point one way: ``actions`` use ``adapters``, those use ``decide`` and ``model``.
"""

__version__ = "0.1.0"
